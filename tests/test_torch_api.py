"""The tables of PyTorch against PyTorch itself.

In: `devicelint.torch_api` and, where it is installed, torch.  Out: a failure for each fact that is
not, or no longer, true.  Never here: analysis of code.  Without torch only the shape is checked.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from devicelint import torch_api
from devicelint.model import Constructor, Kind, Sink

ROWS = torch_api.CONSTRUCTORS

#: Arguments with which a tensor factory can be called, as source, where `torch` is bound.
ARGUMENTS = {
    "torch.empty": "2",
    "torch.empty_permuted": "(2, 3), (0, 1)",
    "torch.empty_strided": "(2, 3), (3, 1)",
    "torch.ones": "2",
    "torch.zeros": "2",
    "torch.full": "(2,), 1.0",
    "torch.arange": "3",
    "torch.linspace": "0, 1, 3",
    "torch.logspace": "0, 1, 3",
    "torch.eye": "2",
    "torch.scalar_tensor": "1.0",
    "torch.tril_indices": "2, 2",
    "torch.triu_indices": "2, 2",
    "torch.rand": "2",
    "torch.randn": "2",
    "torch.randint": "3, (2,)",
    "torch.randperm": "3",
    "torch.tensor": "[1.0]",
    "torch.as_tensor": "[1.0]",
    "torch.asarray": "[1.0]",
    "torch.bartlett_window": "3",
    "torch.blackman_window": "3",
    "torch.hamming_window": "3",
    "torch.hann_window": "3",
    "torch.kaiser_window": "3",
    "torch.fft.fftfreq": "3",
    "torch.fft.rfftfreq": "3",
    "torch.sparse_coo_tensor": "[[0, 1]], [1.0, 2.0], (2,)",
    "torch.sparse_compressed_tensor": "[0, 1], [0], [1.0], (1, 1), layout=torch.sparse_csr",
    "torch.sparse_csr_tensor": "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)",
    "torch.sparse_csc_tensor": "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)",
    "torch.sparse_bsr_tensor": "[0, 1], [0], [[[1.0, 2.0], [3.0, 4.0]]], (2, 2)",
    "torch.sparse_bsc_tensor": "[0, 1], [0], [[[1.0, 2.0], [3.0, 4.0]]], (2, 2)",
    "torch.signal.windows.bartlett": "3",
    "torch.signal.windows.blackman": "3",
    "torch.signal.windows.cosine": "3",
    "torch.signal.windows.exponential": "3",
    "torch.signal.windows.gaussian": "3",
    "torch.signal.windows.general_cosine": "3, a=[0.5, 0.5]",
    "torch.signal.windows.general_hamming": "3",
    "torch.signal.windows.hamming": "3",
    "torch.signal.windows.hann": "3",
    "torch.signal.windows.kaiser": "3",
    "torch.signal.windows.nuttall": "3",
    "torch.nn.Transformer.generate_square_subsequent_mask": "3",
    "torch.range": "0, 3",
    "torch.normal": "0.0, 1.0, (2,)",
}

#: Tensor factories that cannot be called on meta, and so not compared here; why.
NOT_CALLED = {
    "torch.empty_quantized": "no quantized kernel on meta; see test_empty_quantized",
    "torch.nested.nested_tensor": "no nested storage on meta; see test_nested_tensor",
    "torch.nn.attention.flex_attention.create_block_mask": "see test_flex_attention_masks",
    "torch.nn.attention.flex_attention.create_mask": "see test_flex_attention_masks",
}

#: Constructors that PyTorch's own list of what a context moves holds, and the table marks as not
#: moved.
LISTED_BUT_NOT_MOVED = {
    "torch.range": "its binding never reaches __torch_function__",
    "torch.nested.nested_tensor": "its Python wrapper never reaches __torch_function__",
}

#: The other way round: moved by a context, and not in that list.
MOVED_BUT_NOT_LISTED = {
    "torch.nn.Transformer.generate_square_subsequent_mask": "calls torch.full",
    **{name: "calls torch.linspace" for name in ROWS if name.startswith("torch.signal.windows.")},
}

#: Arguments with which a module of torch.nn can be built, without the device.
MODULE_ARGUMENTS: dict[str, tuple[object, ...]] = {
    "torch.nn.RNN": (2, 3),
    "torch.nn.LSTM": (2, 3),
    "torch.nn.GRU": (2, 3),
}

#: Positional arguments of the recurrent modules up to the device (they hide their signature).
RECURRENT_DEFAULTS: tuple[object, ...] = (1, True, False, 0.0, False)


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    module: ModuleType = pytest.importorskip("torch")
    for name in ("torch.nn.attention.flex_attention", "torch.ao.nn.qat.dynamic"):
        importlib.import_module(name)
    importlib.import_module("torch.ao.nn.quantizable")
    return module


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def resolve(torch: ModuleType, name: str) -> object:
    """Return what a qualified name of torch stands for."""
    value: object = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def evaluate(torch: ModuleType, expression: str) -> object:
    """Evaluate an expression about torch."""
    return eval(expression, {"torch": torch})


def rows(*kinds: Kind) -> list[Constructor]:
    """Return the rows of some kinds, in order."""
    return [row for row in ROWS.values() if row.kind in kinds]


CALLED = [row for row in rows(Kind.TENSOR) if row.name not in NOT_CALLED]


# Shape, without torch ----------------------------------------------------------------------------


def test_import_needs_no_torch() -> None:
    code = "import sys, devicelint.torch_api; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_names_are_canonical_and_apart() -> None:
    assert [
        name for name in ROWS if torch_api.canonical(name) != name and name.count(".") < 4
    ] == []
    assert ROWS.keys().isdisjoint(torch_api.NOT_CONSTRUCTORS)
    assert all(row.name == name for name, row in ROWS.items())
    assert len(ROWS) == len(torch_api._ROWS)


def test_every_tensor_factory_has_arguments_here() -> None:
    names = {row.name for row in rows(Kind.TENSOR)}
    assert names == ARGUMENTS.keys() | NOT_CALLED.keys()


def test_tokens_cover_every_constructor_but_modules() -> None:
    for row in ROWS.values():
        token = row.name.rpartition(".")[2].encode()
        assert (token in torch_api.FACTORY_TOKENS) is (row.kind is not Kind.MODULE), row.name
    assert len(set(torch_api.FACTORY_TOKENS)) == len(torch_api.FACTORY_TOKENS)


def test_method_sets_are_disjoint() -> None:
    sets = (
        torch_api.TENSOR_METHODS,
        torch_api.MOVING_METHODS,
        torch_api.HOST_METHODS,
        torch_api.PROBES,
    )
    assert len(frozenset().union(*sets)) == sum(map(len, sets))
    assert torch_api.HOST_FUNCTIONS.isdisjoint(torch_api.PROBE_FUNCTIONS)
    assert torch_api.COPYING_METHODS <= torch_api.TENSOR_METHODS
    assert torch_api.PROBES_WITHOUT_ARGUMENTS <= torch_api.TENSOR_METHODS


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.module.Module", "torch.nn.Module"),
        ("torch.nn.modules.sparse.Embedding.from_pretrained", "torch.nn.Embedding.from_pretrained"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.nn.parameter.Buffer", "torch.nn.Buffer"),
        ("torch.functional.norm", "torch.norm"),
        ("torch._C.Generator", "torch.Generator"),
        ("torch._C._VariableFunctions.zeros", "torch.zeros"),
        ("torch._tensor.Tensor", "torch.Tensor"),
        ("torch.cuda.streams.Stream", "torch.cuda.Stream"),
        ("torch.mtia.Stream", "torch.Stream"),
        ("torch.nn.qat.Linear", "torch.ao.nn.qat.Linear"),
        ("torch.nn.qat.modules.linear.Linear", "torch.ao.nn.qat.Linear"),
        ("torch.ao.nn.qat.modules.linear.Linear", "torch.ao.nn.qat.Linear"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.signal.windows.windows.hann", "torch.signal.windows.hann"),
        (
            "torch.nn.modules.transformer.Transformer.generate_square_subsequent_mask",
            "torch.nn.Transformer.generate_square_subsequent_mask",
        ),
    ],
)
def test_aliases(torch: ModuleType, alias: str, name: str) -> None:
    assert torch_api.canonical(alias) == name
    if "_VariableFunctions" not in alias:
        original, mapped = resolve(torch, alias), resolve(torch, name)
        # A bound class method is a new object at each access.
        assert original == mapped


@pytest.mark.parametrize("name", ["torch.zeros", "torch.nn.Linear", "numpy.zeros", "zeros", ""])
def test_other_names_stay(name: str) -> None:
    assert torch_api.canonical(name) == name


# Constructors ------------------------------------------------------------------------------------


def test_every_constructor_exists(torch: ModuleType) -> None:
    for name in ROWS:
        assert callable(resolve(torch, name)), name


def test_every_exclusion_exists(torch: ModuleType) -> None:
    for name in ("torch.distributed.tensor", "torch.distributed.fsdp", "torch.optim.swa_utils"):
        importlib.import_module(name)
    for name in torch_api.NOT_CONSTRUCTORS:
        resolve(torch, name.rstrip("."))


def test_agrees_with_the_list_of_pytorch(torch: ModuleType) -> None:
    from torch.utils._device import _device_constructors  # type: ignore[import-not-found, unused-ignore]

    known = {resolve(torch, name): row for name, row in ROWS.items()}
    listed = _device_constructors()
    assert [function for function in listed if function not in known] == []
    not_moved = {known[function].name for function in listed if not known[function].honours_context}
    assert not_moved == LISTED_BUT_NOT_MOVED.keys()
    moved = {row.name for row in rows(Kind.TENSOR) if row.honours_context}
    assert moved - {known[function].name for function in listed} == MOVED_BUT_NOT_LISTED.keys()


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row.name)
def test_takes_a_device(torch: ModuleType, row: Constructor) -> None:
    assert evaluate(torch, f"{row.name}({ARGUMENTS[row.name]}).device.type") == "cpu"
    call = f"{row.name}({ARGUMENTS[row.name]}, device='meta')"
    assert evaluate(torch, f"{call}.device.type") == "meta"


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row.name)
def test_context(torch: ModuleType, row: Constructor) -> None:
    with torch.device("meta"):
        device = evaluate(torch, f"{row.name}({ARGUMENTS[row.name]}).device.type")
    assert device == ("meta" if row.honours_context else "cpu")


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row.name)
def test_none_is_no_device(torch: ModuleType, row: Constructor) -> None:
    call = f"{row.name}({ARGUMENTS[row.name]}, device=None).device.type"
    with torch.device("meta"):
        assert evaluate(torch, call) == ("meta" if row.honours_context else "cpu")


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row.name)
def test_device_position(torch: ModuleType, row: Constructor) -> None:
    """No position takes a device, except the one that the table names."""
    given = ARGUMENTS[row.name].partition(", layout=")[0].partition(", a=")[0]
    count = len(evaluate(torch, f"[{given}]"))  # type: ignore[arg-type]
    found = None
    for index in range(count, count + 6):
        # torch.full((2,), 1.0, None, ...) and the like are TypeErrors long before the device.
        filler = "None, " * (index - count)
        try:
            value = evaluate(torch, f"{row.name}({given}, {filler}torch.device('meta'))")
        except (TypeError, RuntimeError, ValueError):
            continue
        if value.device.type == "meta":  # type: ignore[attr-defined]
            found = index
            break
    assert found == row.device_index


@pytest.mark.parametrize(
    "row", [row for row in CALLED if row.follows_tensor], ids=lambda row: row.name
)
def test_follows_a_tensor(torch: ModuleType, row: Constructor) -> None:
    on_meta = "torch.tensor({}, device='meta')"
    if "sparse" in row.name:
        # The indices and the values as tensors; the size and the layout as they are.
        lists, size = ARGUMENTS[row.name].split(", (", maxsplit=1)
        values = [on_meta.format(value) for value in ast.literal_eval(f"[{lists}]")]
        arguments = f"{', '.join(values)}, ({size}"
    else:
        arguments = on_meta.format("[1.0]")
    assert evaluate(torch, f"{row.name}({arguments}).device.type") == "meta"


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row.name)
def test_random(torch: ModuleType, row: Constructor) -> None:
    """A factory is random exactly if it moves the state of the generator."""
    before = torch.get_rng_state()
    evaluate(torch, f"{row.name}({ARGUMENTS[row.name]})")
    assert (not torch.equal(before, torch.get_rng_state())) is row.random


def test_normal_with_a_tensor_refuses_a_device(torch: ModuleType) -> None:
    with pytest.raises(TypeError, match="invalid combination"):
        torch.normal(torch.zeros(2), torch.ones(2), device="meta")


def test_empty_quantized(torch: ModuleType) -> None:
    source = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
    assert torch.empty_quantized((2,), source).device.type == "cpu"
    # The context does put its device in: the call then fails for want of a kernel.
    with torch.device("meta"), pytest.raises(NotImplementedError):
        torch.empty_quantized((2,), source)
    with pytest.raises(TypeError):
        torch.empty_quantized((2,), source, torch.device("cpu"))


def test_nested_tensor(torch: ModuleType) -> None:
    data = [[1.0], [2.0, 3.0]]
    with torch.device("meta"):
        assert torch.nested.nested_tensor(data).device.type == "cpu"
    # It takes a device: this one has no storage for it, and says so.
    with pytest.raises(RuntimeError, match="meta"):
        torch.nested.nested_tensor(data, device="meta")
    parameter = inspect.signature(torch.nested.nested_tensor).parameters["device"]
    assert parameter.kind is parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", ["create_block_mask", "create_mask"])
def test_flex_attention_masks(torch: ModuleType, name: str) -> None:
    function = getattr(torch.nn.attention.flex_attention, name)
    row = ROWS[f"torch.nn.attention.flex_attention.{name}"]
    parameters = list(inspect.signature(function).parameters)
    assert parameters.index("device") == row.device_index
    assert inspect.signature(function).parameters["device"].default is None


@pytest.mark.parametrize("row", rows(Kind.LEGACY), ids=lambda row: row.name)
def test_legacy_constructors(torch: ModuleType, row: Constructor) -> None:
    legacy = resolve(torch, row.name)
    assert callable(legacy)
    if row.dtype is not None:
        assert getattr(legacy, "dtype", None) is getattr(torch, row.dtype)
    if row.name.startswith("torch.cuda."):
        return
    with torch.device("meta"):
        made = legacy(2)
    assert made.device.type == "cpu"
    assert row.dtype is None or made.dtype is getattr(torch, row.dtype)
    with pytest.raises(RuntimeError, match="legacy constructor expects device type: cpu"):
        legacy(2, device="meta")


def test_legacy_table_is_complete(torch: ModuleType) -> None:
    table = {row.name for row in rows(Kind.LEGACY)}
    real = {f"{kind.__module__}.{kind.__name__}" for kind in torch._tensor_classes}
    dense = {name for name in real if ".sparse." not in name}
    assert table == dense | {"torch.Tensor"}


def test_legacy_tensor_follows_a_tensor(torch: ModuleType) -> None:
    assert torch.Tensor(torch.ones(2, device="cpu")).device.type == "cpu"
    existing = torch.ones(2)
    assert torch.Tensor(existing).data_ptr() == existing.data_ptr()


@pytest.mark.parametrize("name", ["torch.from_numpy", "torch.frombuffer", "torch.from_file"])
def test_host_memory(torch: ModuleType, name: str) -> None:
    numpy = pytest.importorskip("numpy") if name == "torch.from_numpy" else None
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(64))
        file.flush()
        calls: dict[str, Callable[..., object]] = {
            "torch.from_numpy": lambda **kw: torch.from_numpy(numpy and numpy.zeros(2), **kw),
            "torch.frombuffer": lambda **kw: torch.frombuffer(
                bytearray(8), dtype=torch.float32, **kw
            ),
            "torch.from_file": lambda **kw: torch.from_file(file.name, size=4, **kw),
        }
        call = calls[name]
        with torch.device("meta"):
            assert call().device.type == "cpu"  # type: ignore[attr-defined]
        # from_file knows the keyword and has no kernel for it: NotImplementedError.
        with pytest.raises((TypeError, NotImplementedError)):
            call(device="meta")
    assert not ROWS[name].takes_device


def test_generator(torch: ModuleType) -> None:
    with torch.device("meta"):
        assert torch.Generator().device.type == "cpu"
    assert torch.Generator("cpu").device.type == "cpu"
    assert ROWS["torch.Generator"].device_index == 0


def test_streams_take_a_device_where_the_table_says(torch: ModuleType) -> None:
    for name in ("torch.cuda.Stream", "torch.xpu.Stream", "torch.cuda.ExternalStream"):
        # Their __new__ is all that a build without the hardware has of them.
        new = resolve(torch, name).__new__
        parameters = list(inspect.signature(new).parameters)
        assert parameters.index("device") - 1 == ROWS[name].device_index, name
    assert torch.Stream("cpu").device.type == "cpu"
    with torch.device("meta"):
        assert torch.Stream().device.type != "meta"


# Modules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows(Kind.MODULE), ids=lambda row: row.name)
def test_module_device_index(torch: ModuleType, row: Constructor) -> None:
    cls = resolve(torch, row.name)
    assert isinstance(cls, type)
    if row.name in MODULE_ARGUMENTS:
        head = MODULE_ARGUMENTS[row.name] + RECURRENT_DEFAULTS
        # nn.RNN has a `nonlinearity` after the number of layers.
        if row.name == "torch.nn.RNN":
            head = (*head[:3], "tanh", *head[3:])
        assert row.device_index is not None
        # `proj_size` is the last before the device; nn.GRU and nn.RNN refuse one that is not 0.
        padding = (0,) * (row.device_index - len(head))
        module = cls(*head, *padding, "meta")
        assert {parameter.device.type for parameter in module.parameters()} == {"meta"}
        return
    parameters = list(inspect.signature(cls).parameters.values())
    index = [parameter.name for parameter in parameters].index("device")
    keyword_only = parameters[index].kind is inspect.Parameter.KEYWORD_ONLY
    assert row.device_index == (None if keyword_only else index)


def test_every_module_of_nn_with_a_device_is_in_the_table(torch: ModuleType) -> None:
    missing = [
        name
        for name, cls in module_classes(torch).items()
        if "device" in inspect.signature(cls).parameters and name not in ROWS
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("torch.nn.Linear", "(2, 3)"),
        ("torch.nn.Conv2d", "(2, 3, 1)"),
        ("torch.nn.Embedding", "(2, 3)"),
        ("torch.nn.LayerNorm", "(2,)"),
        ("torch.nn.LSTM", "(2, 3)"),
        ("torch.nn.MultiheadAttention", "(2, 1)"),
        ("torch.nn.LinearCrossEntropyLoss", "(2, 3)"),
    ],
)
def test_modules_follow_a_context(torch: ModuleType, name: str, call: str) -> None:
    with torch.device("meta"):
        module = evaluate(torch, name + call)
    parameters = list(module.parameters())  # type: ignore[attr-defined]
    assert {parameter.device.type for parameter in parameters} == {"meta"}


def module_classes(torch: ModuleType) -> dict[str, type]:
    """Return the nn.Module classes of torch.nn by qualified name."""
    return {
        f"torch.nn.{name}": cls
        for name, cls in vars(torch.nn).items()
        if isinstance(cls, type) and issubclass(cls, torch.nn.Module)
    }


def test_module_names_of_nn_are_those_of_torch(torch: ModuleType) -> None:
    assert {f"torch.nn.{name}" for name in torch_api._NN} == module_classes(torch).keys()


def test_is_module_class_agrees_with_torch(torch: ModuleType) -> None:
    """Public classes of torch.nn, under torch.nn and under the module that defines them."""
    # Two autograd functions have the names of modules: no one derives from those.
    clash = {"torch.nn.modules._functions"}
    wrong = []
    for module_name, module in sorted(sys.modules.items()):
        if not module_name.startswith(("torch.nn.modules", "torch.nn.parameter")) or (
            module_name in clash
        ):
            continue
        for name, cls in vars(module).items():
            if not isinstance(cls, type) or name.startswith("_") or not name[0].isupper():
                continue
            if not cls.__module__.startswith("torch.nn"):
                continue
            expected = issubclass(cls, torch.nn.Module)
            qualified = f"{cls.__module__}.{name}"
            if torch_api.is_module_class(qualified) is not expected:
                wrong.append(qualified)
    assert wrong == []


def test_torch_bases_exist_and_are_modules(torch: ModuleType) -> None:
    for name in sorted(torch_api.MODULE_BASES):
        if not name.startswith("torch."):
            continue
        importlib.import_module(name.rpartition(".")[0])
        cls = resolve(torch, name)
        assert isinstance(cls, type), name
        assert issubclass(cls, torch.nn.Module), name


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.ParameterDict",
        "torch.nn.modules.batchnorm._BatchNorm",
        "torch.ao.nn.quantized.Linear",
        "torchvision.models.ResNet",
        "torchvision.models.resnet.ResNet",
        "torchvision.ops.MLP",
        "timm.layers.DropPath",
        "timm.models.vision_transformer.VisionTransformer",
        "transformers.LlamaForCausalLM",
        "transformers.BertForTokenClassification",
        "transformers.models.llama.modeling_llama.LlamaMLP",
        "lightning.pytorch.LightningModule",
        "diffusers.models.modeling_utils.ModelMixin",
        "torchmetrics.Metric",
        "gpytorch.Module",
    ],
)
def test_module_classes(name: str) -> None:
    assert torch_api.is_module_class(name)


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "torch.nn.Buffer",
        "torch.nn.UninitializedParameter",
        "torch.nn.functional.linear",
        "torch.nn.functional.GELU",
        "torch.nn.init.Normal",
        "torch.nn.LinearCrossEntropyOptions",
        "torch.Tensor",
        "torch.autograd.Function",
        "torch.utils.data.Dataset",
        "torchvision.models.ResNet50_Weights",
        "torchvision.models.resnet50",
        "transformers.LlamaConfig",
        "transformers.LlamaTokenizer",
        "transformers.AutoModel",
        "transformers.DataCollatorForTokenClassification",
        "transformers.models.csm.modeling_csm.CsmOutputWithPast",
        "transformers.modeling_outputs.BaseModelOutput",
        "mlx.nn.Linear",
        "Linear",
        "",
    ],
)
def test_other_classes(name: str) -> None:
    assert not torch_api.is_module_class(name)


# Names of values ---------------------------------------------------------------------------------


def test_every_name_of_a_tensor_is_in_one_set(torch: ModuleType) -> None:
    named = (
        torch_api.TENSOR_METHODS
        | torch_api.MOVING_METHODS
        | torch_api.HOST_METHODS
        | torch_api.PROBES
    )
    public = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    unknown = {name for name in named if not name.startswith("__")} - public
    # Of other releases, of plugins, and of modules.
    assert unknown <= {"hpu", "musa", "names", "npu", "to_empty", "xla"}
    assert public - named == {
        *("backward", "record_stream", "register_hook", "register_post_accumulate_grad_hook"),
        *("reinforce", "retain_grad", "storage", "untyped_storage", "module_load", "grad"),
    }


def test_tensor_methods_return_tensors(torch: ModuleType) -> None:
    """All that can be called with nothing on a square matrix."""
    matrix = torch.eye(2) * 0.5
    for name in sorted(torch_api.TENSOR_METHODS):
        try:
            member = getattr(matrix.clone(), name)
            value = member() if callable(member) else member
        except Exception:  # noqa: BLE001  (needs arguments: nothing to see here)
            continue
        values = value if isinstance(value, (tuple, list)) else (value,)
        if name in torch_api.PROBES_WITHOUT_ARGUMENTS:
            assert isinstance(value, str)
        else:
            assert all(isinstance(one, torch.Tensor) for one in values), name


#: A call of each on a tensor `t` of one whole number.
HOST_CALLS = {name: f"{name}(t)" for name in torch_api.HOST_FUNCTIONS} | {
    "any": "any(t.view(1))",
    "all": "all(t.view(1))",
    "max": "max(t.expand(2))",
    "min": "min(t.expand(2))",
    "sorted": "sorted(t.expand(2))",
}


@pytest.mark.parametrize("name", sorted(torch_api.HOST_FUNCTIONS))
def test_host_functions_fail_on_meta(torch: ModuleType, name: str) -> None:
    eval(HOST_CALLS[name], {"t": torch.tensor(1)})
    with pytest.raises(RuntimeError, match=r"Tensor\.item\(\) cannot be called on meta"):
        eval(HOST_CALLS[name], {"t": torch.tensor(1, device="meta")})


@pytest.mark.parametrize("name", sorted(torch_api.PROBE_FUNCTIONS - {"isinstance", "hasattr"}))
def test_probe_functions_work_on_meta(torch: ModuleType, name: str) -> None:
    eval(f"{name}(t)", {"t": torch.ones(2, device="meta")})


@pytest.mark.parametrize("name", sorted(torch_api.HOST_METHODS - {"apply_", "map_", "map2_"}))
def test_host_methods_fail_on_meta(torch: ModuleType, name: str) -> None:
    arguments = {"equal": "t", "allclose": "t"}
    meta = torch.ones((), device="meta")
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        eval(f"t.{name}({arguments.get(name, '')})", {"t": meta})


def test_maps_do_nothing_on_meta(torch: ModuleType) -> None:
    def fail(*values: float) -> float:
        raise AssertionError(values)

    meta = torch.ones(2, device="meta")
    assert meta.apply_(fail).device.type == "meta"
    assert meta.map_(meta, fail).device.type == "meta"
    assert meta.map2_(meta, meta, fail).device.type == "meta"


def test_probes_work_on_meta(torch: ModuleType) -> None:
    meta = torch.ones(2, device="meta")
    failed = []
    for name in sorted(torch_api.PROBES):
        try:
            member = getattr(meta, name)
            if callable(member):
                member()
        # Wants another tensor, or a tensor that is quantized or sparse.
        except (TypeError, AttributeError, RuntimeError) as error:
            failed.append((name, str(error)))
    assert [name for name, error in failed if "item()" in error or "no data" in error] == []


def test_dtypes(torch: ModuleType) -> None:
    real = {name for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    assert real == torch_api.TORCH_DTYPES
    dtypes = {row.dtype for row in ROWS.values() if row.dtype is not None}
    assert dtypes <= torch_api.TORCH_DTYPES


@pytest.mark.parametrize("name", sorted(torch_api.TENSOR_ARGUMENT_SINKS))
def test_tensor_argument_sinks(torch: ModuleType, name: str) -> None:
    calls = {
        "torch.nn.Parameter": "(t)",
        "torch.nn.Buffer": "(t)",
        "torch.nn.ParameterList": "([t])",
        "torch.nn.ParameterDict": "({'t': t})",
        "torch.nn.Embedding": "(3, 3, _weight=t)",
        "torch.nn.EmbeddingBag": "(3, 3, _weight=t)",
        "torch.nn.Embedding.from_pretrained": "(t)",
        "torch.nn.EmbeddingBag.from_pretrained": "(t)",
        "torch.nn.LinearCrossEntropyLoss": "(3, 3, weight=t[0])",
    }
    tensor = torch.rand(3, 3)
    call = name + calls.get(name, "(weight=t[0])")
    made = eval(call, {"torch": torch, "t": tensor})
    if torch_api.TENSOR_ARGUMENT_SINKS[name] is Sink.PARAMETER:
        kept = [made] if isinstance(made, torch.nn.Parameter) else list(made.parameters())
    else:
        kept = [made] if isinstance(made, torch.nn.Buffer) else list(made.buffers())
    assert tensor.data_ptr() in {one.data_ptr() for one in kept}


def test_pos_weight_is_a_buffer(torch: ModuleType) -> None:
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))
    assert [name for name, _ in loss.named_buffers()] == ["pos_weight"]
