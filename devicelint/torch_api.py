"""What PyTorch is, as tables: constructors, module classes, and the names that move values.

In: nothing.  Out: read-only data, and two look-ups by qualified name.  Never here: torch itself
(importing this module must stay under 5 ms), I/O, or a judgement about any code.

Evidence: every fact below was run on torch 2.13.0 (CPU build, with "meta" standing for a second
device), unless the comment says otherwise; `tests/test_torch_api.py` runs them again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from devicelint.model import Constructor, Kind, Sink


def _names(text: str) -> frozenset[str]:
    """Take a text apart into the names in it."""
    return frozenset(text.split())


def _tensor(
    name: str,
    device_index: int | None = None,
    *,
    honours_context: bool = True,
    random: bool = False,
    follows_tensor: bool = False,
) -> Constructor:
    """Build the row of a tensor factory: by default keyword-only, and moved by contexts."""
    return Constructor(
        name,
        Kind.TENSOR,
        device_index=device_index,
        honours_context=honours_context,
        random=random,
        follows_tensor=follows_tensor,
    )


def _stream(name: str, device_index: int) -> Constructor:
    """Build the row of a stream: it takes the accelerator's current device, never a context's."""
    return Constructor(name, Kind.STREAM, device_index=device_index, honours_context=False)


def _legacy(name: str, dtype: str | None) -> Constructor:
    """Build the row of a legacy constructor: `device=` other than its own is a RuntimeError."""
    return Constructor(
        name,
        Kind.LEGACY,
        takes_device=False,
        honours_context=False,
        follows_tensor=dtype is None,
        dtype=dtype,
    )


def _host(name: str) -> Constructor:
    """Build the row of a constructor over memory of the host."""
    return Constructor(name, Kind.HOST_MEMORY, takes_device=False, honours_context=False)


def _module(name: str, device_index: int | None) -> Constructor:
    """Build the row of a module whose parameters are made on a `device` it accepts."""
    return Constructor(name, Kind.MODULE, device_index=device_index, settled_by=())


_ROWS: Final = (
    # Bound in C, so keyword-only, whatever the type stubs say: the stub of torch.tensor declares
    # (data, dtype, device), the call answers "tensor() takes 1 positional argument".
    _tensor("torch.empty"),
    _tensor("torch.empty_permuted"),
    _tensor("torch.empty_strided"),
    # A context does put the device in; quantized storage then exists on few of them.
    _tensor("torch.empty_quantized"),
    _tensor("torch.ones"),
    _tensor("torch.zeros"),
    _tensor("torch.full"),
    _tensor("torch.arange"),
    _tensor("torch.linspace"),
    _tensor("torch.logspace"),
    _tensor("torch.eye"),
    _tensor("torch.scalar_tensor"),
    _tensor("torch.tril_indices"),
    _tensor("torch.triu_indices"),
    _tensor("torch.rand", random=True),
    _tensor("torch.randn", random=True),
    _tensor("torch.randint", random=True),
    _tensor("torch.randperm", random=True),
    _tensor("torch.tensor", follows_tensor=True),
    _tensor("torch.as_tensor", follows_tensor=True),
    _tensor("torch.asarray", follows_tensor=True),
    _tensor("torch.bartlett_window"),
    _tensor("torch.blackman_window"),
    _tensor("torch.hamming_window"),
    _tensor("torch.hann_window"),
    _tensor("torch.kaiser_window"),
    _tensor("torch.fft.fftfreq"),
    _tensor("torch.fft.rfftfreq"),
    _tensor("torch.sparse_coo_tensor", follows_tensor=True),
    _tensor("torch.sparse_compressed_tensor", follows_tensor=True),
    _tensor("torch.sparse_csr_tensor", follows_tensor=True),
    _tensor("torch.sparse_csc_tensor", follows_tensor=True),
    _tensor("torch.sparse_bsr_tensor", follows_tensor=True),
    _tensor("torch.sparse_bsc_tensor", follows_tensor=True),
    _tensor("torch.signal.windows.bartlett"),
    _tensor("torch.signal.windows.blackman"),
    _tensor("torch.signal.windows.cosine"),
    _tensor("torch.signal.windows.exponential"),
    _tensor("torch.signal.windows.gaussian"),
    _tensor("torch.signal.windows.general_cosine"),
    _tensor("torch.signal.windows.general_hamming"),
    _tensor("torch.signal.windows.hamming"),
    _tensor("torch.signal.windows.hann"),
    _tensor("torch.signal.windows.kaiser"),
    _tensor("torch.signal.windows.nuttall"),
    _tensor("torch.nn.Transformer.generate_square_subsequent_mask", 1),
    # In PyTorch's own list of what contexts move, but their bindings never reach it.
    _tensor("torch.range", honours_context=False),
    _tensor("torch.nested.nested_tensor", honours_context=False, follows_tensor=True),
    # Not in that list.  Only normal(float, float, size) takes a device: the forms with a tensor
    # follow it and refuse `device=` ("received an invalid combination of arguments").
    _tensor("torch.normal", honours_context=False, random=True, follows_tensor=True),
    # None means the accelerator, else the CPU; up to torch 2.9 the default was "cuda" (source).
    _tensor("torch.nn.attention.flex_attention.create_block_mask", 5, honours_context=False),
    _tensor("torch.nn.attention.flex_attention.create_mask", 5, honours_context=False),
    _stream("torch.Stream", 0),
    _stream("torch.cuda.Stream", 0),
    _stream("torch.cuda.ExternalStream", 1),
    _stream("torch.xpu.Stream", 0),
    # The CPU, also under set_default_device("cuda").
    Constructor("torch.Generator", Kind.GENERATOR, device_index=0, honours_context=False),
    # torch.Tensor(existing) aliases it; the typed ones only take what is on their own device.
    _legacy("torch.Tensor", None),
    _legacy("torch.FloatTensor", "float32"),
    _legacy("torch.DoubleTensor", "float64"),
    _legacy("torch.HalfTensor", "float16"),
    _legacy("torch.BFloat16Tensor", "bfloat16"),
    _legacy("torch.LongTensor", "long"),
    _legacy("torch.IntTensor", "int"),
    _legacy("torch.ShortTensor", "short"),
    _legacy("torch.CharTensor", "int8"),
    _legacy("torch.ByteTensor", "uint8"),
    _legacy("torch.BoolTensor", "bool"),
    _legacy("torch.cuda.FloatTensor", "float32"),
    _legacy("torch.cuda.DoubleTensor", "float64"),
    _legacy("torch.cuda.HalfTensor", "float16"),
    _legacy("torch.cuda.BFloat16Tensor", "bfloat16"),
    _legacy("torch.cuda.LongTensor", "long"),
    _legacy("torch.cuda.IntTensor", "int"),
    _legacy("torch.cuda.ShortTensor", "short"),
    _legacy("torch.cuda.CharTensor", "int8"),
    _legacy("torch.cuda.ByteTensor", "uint8"),
    _legacy("torch.cuda.BoolTensor", "bool"),
    # Neither takes a device: "takes no keyword arguments", "unexpected keyword argument".
    _host("torch.from_numpy"),
    _host("torch.frombuffer"),
    # Maps a file into host memory: takes `device=`, but no kernel for any device but the CPU.
    _host("torch.from_file"),
    # RNN, LSTM and GRU have the signature (*args, **kwargs): their index is measured.
    _module("torch.nn.AdaptiveLogSoftmaxWithLoss", 5),
    _module("torch.nn.BatchNorm1d", 5),
    _module("torch.nn.BatchNorm2d", 5),
    _module("torch.nn.BatchNorm3d", 5),
    _module("torch.nn.Bilinear", 4),
    _module("torch.nn.Conv1d", 9),
    _module("torch.nn.Conv2d", 9),
    _module("torch.nn.Conv3d", 9),
    _module("torch.nn.ConvTranspose1d", 10),
    _module("torch.nn.ConvTranspose2d", 10),
    _module("torch.nn.ConvTranspose3d", 10),
    _module("torch.nn.Embedding", 9),
    _module("torch.nn.EmbeddingBag", 10),
    _module("torch.nn.GRU", 8),
    _module("torch.nn.GRUCell", 3),
    _module("torch.nn.GroupNorm", 4),
    _module("torch.nn.InstanceNorm1d", 5),
    _module("torch.nn.InstanceNorm2d", 5),
    _module("torch.nn.InstanceNorm3d", 5),
    _module("torch.nn.LSTM", 8),
    _module("torch.nn.LSTMCell", 3),
    _module("torch.nn.LayerNorm", 4),
    _module("torch.nn.LazyBatchNorm1d", 4),
    _module("torch.nn.LazyBatchNorm2d", 4),
    _module("torch.nn.LazyBatchNorm3d", 4),
    _module("torch.nn.LazyConv1d", 8),
    _module("torch.nn.LazyConv2d", 8),
    _module("torch.nn.LazyConv3d", 8),
    _module("torch.nn.LazyConvTranspose1d", 9),
    _module("torch.nn.LazyConvTranspose2d", 9),
    _module("torch.nn.LazyConvTranspose3d", 9),
    _module("torch.nn.LazyInstanceNorm1d", 4),
    _module("torch.nn.LazyInstanceNorm2d", 4),
    _module("torch.nn.LazyInstanceNorm3d", 4),
    _module("torch.nn.LazyLinear", 2),
    _module("torch.nn.Linear", 3),
    _module("torch.nn.LinearCrossEntropyLoss", None),
    _module("torch.nn.MultiheadAttention", 9),
    _module("torch.nn.PReLU", 2),
    _module("torch.nn.RMSNorm", 3),
    _module("torch.nn.RNN", 9),
    _module("torch.nn.RNNBase", 9),
    _module("torch.nn.RNNCell", 4),
    _module("torch.nn.RNNCellBase", 4),
    _module("torch.nn.SyncBatchNorm", 6),
    _module("torch.nn.Transformer", 13),
    _module("torch.nn.TransformerDecoderLayer", 9),
    _module("torch.nn.TransformerEncoderLayer", 9),
    _module("torch.nn.modules.linear.NonDynamicallyQuantizableLinear", 3),
    _module("torch.ao.nn.qat.Conv1d", 10),
    _module("torch.ao.nn.qat.Conv2d", 10),
    _module("torch.ao.nn.qat.Conv3d", 10),
    _module("torch.ao.nn.qat.Embedding", 8),
    _module("torch.ao.nn.qat.EmbeddingBag", 11),
    _module("torch.ao.nn.qat.Linear", 4),
    _module("torch.ao.nn.qat.dynamic.Linear", 4),
    _module("torch.ao.nn.quantizable.LSTM", 7),
    _module("torch.ao.nn.quantizable.LSTMCell", 3),
    _module("torch.ao.nn.quantizable.MultiheadAttention", 9),
)

#: Every constructor by its canonical name.  A new one is one line in `_ROWS`.
CONSTRUCTORS: Final[Mapping[str, Constructor]] = MappingProxyType({row.name: row for row in _ROWS})

_FOLLOWS_ARGUMENT = "has the device of its argument, and contexts leave it alone"
_FOLLOWS_SELF = "has the device of self, and contexts leave it alone"
_TAKES_NONE = "has no device parameter: giving one is a TypeError"
_FROM_MESH = "the device comes from the mesh"
_EXISTING = "returns something that exists already"
_STORAGE = "untyped memory, no tensor; code that makes one by hand means where it is"
_WRAPPER = "wraps a module that has its device; it has its own device_ids or device_id"
_QUANTIZED = "quantized kernels, built by a conversion of a finished model, not by hand"

#: What looks like a constructor without a device and is none, and why.  A name that ends in a
#: dot stands for everything below it.
NOT_CONSTRUCTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "torch.empty_like": _FOLLOWS_ARGUMENT,
        "torch.zeros_like": _FOLLOWS_ARGUMENT,
        "torch.ones_like": _FOLLOWS_ARGUMENT,
        "torch.full_like": _FOLLOWS_ARGUMENT,
        "torch.rand_like": _FOLLOWS_ARGUMENT,
        "torch.randn_like": _FOLLOWS_ARGUMENT,
        "torch.randint_like": _FOLLOWS_ARGUMENT,
        "torch.nested.as_nested_tensor": _FOLLOWS_ARGUMENT,
        "torch.from_dlpack": _FOLLOWS_ARGUMENT,
        "torch.Tensor.new": _FOLLOWS_SELF,
        "torch.Tensor.new_empty": _FOLLOWS_SELF,
        "torch.Tensor.new_empty_strided": _FOLLOWS_SELF,
        "torch.Tensor.new_full": _FOLLOWS_SELF,
        "torch.Tensor.new_ones": _FOLLOWS_SELF,
        "torch.Tensor.new_tensor": _FOLLOWS_SELF,
        "torch.Tensor.new_zeros": _FOLLOWS_SELF,
        "torch.nn.Parameter": _TAKES_NONE,
        "torch.nn.Buffer": _TAKES_NONE,
        "torch.nn.UninitializedParameter": "is given its device when it is materialised",
        "torch.nn.UninitializedBuffer": "is given its device when it is materialised",
        "torch.nn.Identity": "swallows any argument, and holds nothing",
        "torch.Event": "binds to a device when it is first recorded",
        "torch.cuda.Event": "binds to a device when it is first recorded; takes no device",
        "torch.cpu.Stream": "takes no device and does nothing",
        "torch.testing.make_tensor": "requires a device",
        "torch.cuda.current_stream": _EXISTING,
        "torch.cuda.default_stream": _EXISTING,
        "torch.cuda.get_stream_from_external": _EXISTING,
        "torch.accelerator.current_stream": _EXISTING,
        "torch.get_rng_state": "is host memory by definition",
        "torch.cuda.get_rng_state": "is host memory; the device names a generator",
        "torch.UntypedStorage": _STORAGE,
        "torch.TypedStorage": _STORAGE,
        "torch.FloatStorage": _STORAGE,
        "torch.cuda.caching_allocator_alloc": _STORAGE,
        "torch.sparse.FloatTensor": "legacy; has the device of the indices and values it is given",
        "torch.cuda.sparse.": "legacy; has the device of the indices and values it is given",
        "torch.amp.GradScaler": 'its device is a type, "cuda" unless given; no tensor is made',
        "torch.quasirandom.SobolEngine": "has no device parameter, and is on the CPU by design",
        "torch.distributed.tensor.": _FROM_MESH,
        "torch.distributed.device_mesh.init_device_mesh": _FROM_MESH,
        "torch.distributed.fsdp.FullyShardedDataParallel": _WRAPPER,
        "torch.nn.parallel.DistributedDataParallel": _WRAPPER,
        "torch.nn.DataParallel": _WRAPPER,
        "torch.optim.swa_utils.AveragedModel": _WRAPPER,
        "torch.distributions.": "built from tensors or from numbers by the factories above",
        "torch.ao.nn.quantized.": _QUANTIZED,
        "torch.ao.nn.intrinsic.": _QUANTIZED,
    }
)

#: Keywords whose presence makes an inserted accelerator device an error or a change of meaning
#: (the errors were run on torch 2.11 with one GPU).  `out=` settles the device, and
#: `pin_memory=True` makes a host value: both are judged elsewhere.
FIX_OBSTACLE_KEYWORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "generator": "the generator must be on the same device as the tensor",
        "layout": "not every layout exists on every device",
        "names": "named tensors exist on few devices, and no longer in recent PyTorch",
        "copy": "a copy that is forbidden cannot reach another device",
    }
)

#: Bare last names of what is constructed, for the byte prefilter: a file that holds none of these
#: constructs nothing (`getattr(torch, "zeros")` holds the name too).
FACTORY_TOKENS: Final[tuple[bytes, ...]] = tuple(
    sorted({row.name.rpartition(".")[2].encode() for row in _ROWS if row.kind is not Kind.MODULE})
)

# Classes -----------------------------------------------------------------------------------------

#: Every public nn.Module class of torch.nn, by bare name.
_NN = _names(
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss
    AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d
    AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Bilinear CELU CTCLoss
    ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
    ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d DataParallel Dropout
    Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag FeatureAlphaDropout Flatten Fold
    FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm
    Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d
    InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell
    LayerNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
    LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss
    LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d
    MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss
    MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU
    PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm
    RNN RNNBase RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d
    ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU Sigmoid
    SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign
    SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer
    TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss
    Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d
    ZeroPad3d
    """
)

#: Private ones that people derive from, below torch.nn.modules.
_NN_PRIVATE = """
    batchnorm._BatchNorm batchnorm._LazyNormBase batchnorm._NormBase conv._ConvNd
    conv._ConvTransposeNd conv._ConvTransposeMixin dropout._DropoutNd instancenorm._InstanceNorm
    loss._Loss loss._WeightedLoss pooling._AdaptiveAvgPoolNd pooling._AdaptiveMaxPoolNd
    pooling._AvgPoolNd pooling._LPPoolNd pooling._MaxPoolNd pooling._MaxUnpoolNd
    padding._CircularPadNd padding._ConstantPadNd padding._ReflectionPadNd padding._ReplicationPadNd
"""

#: Module classes elsewhere in torch, and well-known public bases of other libraries, under each
#: path that they are imported by (names of other libraries: from their documentation).
_OTHERS = """
    torch.ao.quantization.FakeQuantize torch.ao.quantization.FakeQuantizeBase
    torch.ao.quantization.HistogramObserver torch.ao.quantization.MinMaxObserver
    torch.ao.quantization.ObserverBase torch.ao.quantization.QuantStub
    torch.ao.quantization.DeQuantStub torch.ao.quantization.QuantWrapper
    torch.ao.quantization.fake_quantize.FakeQuantizeBase
    torch.ao.quantization.observer.ObserverBase torch.distributed.fsdp.FullyShardedDataParallel
    torch.nn.parallel.DistributedDataParallel torch.nn.parallel.distributed.DistributedDataParallel
    torch.distributed.nn.RemoteModule torch.fx.GraphModule torch.fx.graph_module.GraphModule
    torch.jit.ScriptModule torch.nn.utils.parametrize.ParametrizationList
    torch.optim.swa_utils.AveragedModel

    lightning.LightningModule lightning.pytorch.LightningModule
    lightning.pytorch.core.LightningModule lightning.pytorch.core.module.LightningModule
    pytorch_lightning.LightningModule pytorch_lightning.core.LightningModule
    pytorch_lightning.core.lightning.LightningModule pytorch_lightning.core.module.LightningModule

    transformers.PreTrainedModel transformers.modeling_utils.PreTrainedModel
    transformers.modeling_layers.GradientCheckpointingLayer transformers.GradientCheckpointingLayer
    transformers.pytorch_utils.Conv1D

    diffusers.ModelMixin diffusers.models.ModelMixin diffusers.models.modeling_utils.ModelMixin

    torchmetrics.Metric torchmetrics.metric.Metric torchmetrics.MetricCollection
    torchmetrics.collections.MetricCollection torchmetrics.wrappers.abstract.WrapperMetric
    pytorch_lightning.metrics.Metric

    torch_geometric.nn.MessagePassing torch_geometric.nn.conv.MessagePassing
    torch_geometric.nn.conv.message_passing.MessagePassing torch_geometric.nn.Aggregation
    torch_geometric.nn.aggr.Aggregation torch_geometric.nn.aggr.base.Aggregation
    torch_geometric.nn.Sequential torch_geometric.nn.GCNConv torch_geometric.nn.GATConv
    torch_geometric.nn.MLP

    sentence_transformers.SentenceTransformer sentence_transformers.CrossEncoder
    sentence_transformers.models.Pooling sentence_transformers.models.Transformer
    sentence_transformers.models.Dense sentence_transformers.models.Module
    sentence_transformers.models.Module.Module

    peft.PeftModel peft.peft_model.PeftModel peft.tuners.tuners_utils.BaseTuner
    peft.tuners.lora.LoraModel peft.tuners.lora.Linear peft.tuners.lora.layer.Linear

    megatron.core.transformer.MegatronModule megatron.core.transformer.module.MegatronModule
    megatron.core.transformer.module.GraphableMegatronModule
    megatron.core.transformer.module.Float16Module megatron.model.module.MegatronModule
    megatron.legacy.model.module.MegatronModule megatron.core.models.gpt.GPTModel
    megatron.core.models.common.language_module.language_module.LanguageModule
    megatron.core.tensor_parallel.ColumnParallelLinear
    megatron.core.tensor_parallel.RowParallelLinear
    megatron.core.tensor_parallel.VocabParallelEmbedding

    transformer_engine.pytorch.Linear transformer_engine.pytorch.LayerNorm
    transformer_engine.pytorch.LayerNormLinear transformer_engine.pytorch.LayerNormMLP
    transformer_engine.pytorch.RMSNorm transformer_engine.pytorch.GroupedLinear
    transformer_engine.pytorch.DotProductAttention transformer_engine.pytorch.TransformerLayer
    transformer_engine.pytorch.module.base.TransformerEngineBaseModule

    fairscale.nn.FullyShardedDataParallel fairscale.nn.model_parallel.layers.ColumnParallelLinear
    fairscale.nn.model_parallel.layers.RowParallelLinear fairscale.nn.misc.FlattenParamsWrapper
    fairseq.models.BaseFairseqModel fairseq.models.FairseqEncoder fairseq.models.FairseqDecoder
    fairseq.models.FairseqIncrementalDecoder fairseq.models.FairseqEncoderDecoderModel
    fairseq.models.FairseqLanguageModel fairseq.modules.FairseqDropout

    torchrec.EmbeddingBagCollection torchrec.EmbeddingCollection
    torchrec.modules.embedding_modules.EmbeddingBagCollection
    torchrec.modules.embedding_modules.EmbeddingBagCollectionInterface
    torchrec.modules.embedding_modules.EmbeddingCollection torchrec.modules.mlp.MLP
    torchrec.distributed.types.ShardedModule
    torchrec.distributed.model_parallel.DistributedModelParallel

    mmengine.model.BaseModule mmengine.model.BaseModel mmcv.runner.BaseModule mmcv.cnn.ConvModule
    mmengine.model.base_module.BaseModule mmengine.model.base_model.BaseModel
    mmdet.models.detectors.BaseDetector

    gpytorch.Module gpytorch.module.Module gpytorch.models.GP gpytorch.models.ExactGP
    gpytorch.models.ApproximateGP gpytorch.kernels.Kernel gpytorch.means.Mean
    gpytorch.likelihoods.Likelihood gpytorch.likelihoods.GaussianLikelihood
    botorch.models.model.Model botorch.acquisition.AcquisitionFunction
    botorch.acquisition.acquisition.AcquisitionFunction

    pyro.nn.PyroModule pyro.nn.module.PyroModule pyro.contrib.gp.Parameterized e3nn.o3.Linear
    e3nn.o3.TensorProduct e3nn.o3.FullyConnectedTensorProduct e3nn.nn.Gate
    e3nn.nn.FullyConnectedNet e3nn.nn.BatchNorm kornia.core.Module kornia.core.ImageModule
    kornia.core.module.ImageModule monai.networks.nets.UNet monai.networks.blocks.Convolution
    monai.networks.blocks.ResidualUnit monai.networks.layers.Flatten monai.losses.DiceLoss
    speechbrain.nnet.containers.Sequential speechbrain.nnet.linear.Linear nemo.core.NeuralModule
    nemo.core.classes.NeuralModule nemo.core.classes.ModelPT nemo.core.classes.module.NeuralModule
    nemo.core.classes.modelPT.ModelPT espnet2.train.abs_espnet_model.AbsESPnetModel
    allennlp.models.Model allennlp.models.model.Model flair.nn.Model flair.nn.Classifier
    stable_baselines3.common.policies.BasePolicy stable_baselines3.common.policies.BaseModel
    stable_baselines3.common.policies.ActorCriticPolicy
    stable_baselines3.common.torch_layers.BaseFeaturesExtractor tensordict.nn.TensorDictModule
    tensordict.nn.TensorDictModuleBase torchrl.objectives.LossModule
    ray.rllib.core.rl_module.torch.TorchRLModule
    ray.rllib.core.rl_module.torch.torch_rl_module.TorchRLModule
    torchtune.modules.TransformerDecoder torchtune.modules.TransformerSelfAttentionLayer
    composer.models.ComposerModel composer.models.HuggingFaceModel
    composer.models.base.ComposerModel pytorch3d.renderer.MeshRenderer detectron2.modeling.Backbone
    detectron2.modeling.backbone.Backbone detectron2.modeling.backbone.backbone.Backbone
    detectron2.layers.CNNBlockBase detectron2.layers.Conv2d ultralytics.nn.modules.Conv
    ultralytics.nn.tasks.BaseModel compressai.models.CompressionModel
    compressai.entropy_models.EntropyModel neuralop.models.base_model.BaseModel physicsnemo.Module
    physicsnemo.models.module.Module modulus.Module modulus.models.module.Module
    vllm.model_executor.custom_op.CustomOp vllm.model_executor.layers.linear.LinearBase
    sglang.srt.layers.linear.LinearBase sglang.srt.layers.utils.multi_platform.MultiPlatformOp
    xformers.ops.SwiGLU flash_attn.modules.mha.MHA flash_attn.ops.rms_norm.RMSNorm mamba_ssm.Mamba
    mamba_ssm.Mamba2 mamba_ssm.modules.mamba_simple.Mamba apex.normalization.FusedLayerNorm
    apex.normalization.FusedRMSNorm bitsandbytes.nn.Linear4bit bitsandbytes.nn.Linear8bitLt
    bitsandbytes.nn.Embedding deepspeed.PipelineModule deepspeed.pipe.PipelineModule
    deepspeed.runtime.pipe.module.PipelineModule deepspeed.moe.layer.MoE open_clip.CLIP
    open_clip.transformer.Transformer whisper.model.Whisper
"""

#: Third-party nn.Module classes by qualified name.
MODULE_BASES: Final[frozenset[str]] = frozenset(
    (
        *(f"torch.nn.{name}" for name in _NN),
        *(f"torch.nn.modules.{name}" for name in _NN_PRIVATE.split()),
        *_OTHERS.split(),
    )
)

#: Packages whose CamelCase classes are modules, but for `NON_MODULE_SUFFIXES`.  Counted on timm
#: 1.0, torchvision 0.29 and kornia 0.9: 1,114 of 1,305 classes are, and one helper is mistaken.
MODULE_PREFIXES: Final[tuple[str, ...]] = (
    "torch.nn.modules.",
    "torch.ao.nn.",
    "torchvision.models.",
    "torchvision.ops.",
    "timm.layers.",
    "timm.models.",
    "timm.loss.",
    "kornia.augmentation.",
    "kornia.losses.",
)

#: Endings of class names that are no modules: settings, results, enums, helpers.
NON_MODULE_SUFFIXES: Final[tuple[str, ...]] = (
    *("Config", "_Weights", "Weights", "WeightsEnum", "Output", "Outputs", "Cfg", "Options"),
    *("Builder", "Fn", "Mixin", "MixIn", "Tracer", "Params", "Protocol", "Function", "Error"),
    *("ParamItem", "Ops", "OpsInterface", "MIKernel", "Iterator", "Info", "Hooks", "Sampler"),
    *("Coder", "Matcher", "ImageList", "Distribution", "WithMapper", "MinIn", "Mapper", "Format"),
    *("RegularGridInterpolator", "MultiprocessWrapper", "Cache", "Session", "Inputs"),
)

#: What torch.nn holds besides modules.
_NOT_MODULES = _names(
    """
    torch.nn.Buffer torch.nn.Parameter torch.nn.UninitializedBuffer
    torch.nn.UninitializedParameter
    """
)

#: Right below `transformers`, models are known by the end of their names.  Its Auto classes are
#: factories, and its data collators are named after the heads too.
_TRANSFORMERS_SUFFIXES = (
    *("Model", "Backbone", "ForCausalLM", "ForConditionalGeneration", "ForMaskedLM", "LMHeadModel"),
    *("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForCTC"),
    *("ForMultipleChoice", "ForPreTraining", "ForNextSentencePrediction", "ForMaskedImageModeling"),
    *("ForImageClassification", "ForSemanticSegmentation", "ForObjectDetection", "ForXVector"),
    *("ForAudioClassification", "ForAudioFrameClassification", "ForVideoClassification"),
    *("ForDepthEstimation", "ForUniversalSegmentation", "ForInstanceSegmentation"),
)
_TRANSFORMERS_NON_MODULES = ("Auto", "DataCollator")


#: Packages, besides Python's own, no class of which makes a class an nn.Module.
_FOREIGN_PREFIXES = (
    *("torch.autograd.", "torch.utils.data.", "torch.optim.", "torch.distributed."),
    *("mlx.", "flax.", "jax.", "keras.", "tensorflow.", "paddle.", "mindspore.", "numpy."),
    *("pydantic.", "msgspec.", "typing_extensions.", "_pytest."),
)


def is_foreign_class(name: str) -> bool:
    """Tell a base outside the project that is known not to make a class an nn.Module."""
    return name.partition(".")[0] in sys.stdlib_module_names or name.startswith(_FOREIGN_PREFIXES)


def is_module_class(qualified: str) -> bool:
    """Tell whether a third-party class is known to derive from `nn.Module`."""
    name = canonical(qualified)
    if name in MODULE_BASES:
        return True
    package, _, last = name.rpartition(".")
    if not last[:1].isupper() or name in _NOT_MODULES or last.endswith(NON_MODULE_SUFFIXES):
        return False
    # A class of a torch newer than the table: torch.nn itself holds modules and parameters only.
    if package == "torch.nn" or name.startswith(MODULE_PREFIXES):
        return True
    if not name.startswith("transformers.") or last.startswith(_TRANSFORMERS_NON_MODULES):
        return False
    # Beside the models lie their results, "LlamaModelOutputWithPast".
    in_model_file = ".modeling_" in package and "OutputWith" not in last
    return in_model_file or last.endswith(_TRANSFORMERS_SUFFIXES)


# Names under which the same thing is known -------------------------------------------------------

_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "torch._C.Generator": "torch.Generator",
        "torch._C.Stream": "torch.Stream",
        "torch._C._fft.fft_fftfreq": "torch.fft.fftfreq",
        "torch._C._fft.fft_rfftfreq": "torch.fft.rfftfreq",
        "torch._tensor.Tensor": "torch.Tensor",
        "torch.mtia.Stream": "torch.Stream",
        "torch.nn.modules.transformer._generate_square_subsequent_mask": (
            "torch.nn.Transformer.generate_square_subsequent_mask"
        ),
        "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    }
)

#: Prefix and what to put in its place; the first that fits is taken.
_ALIAS_PREFIXES = (
    ("torch.nn.parameter.", "torch.nn."),
    ("torch.nn.qat.", "torch.ao.nn.qat."),
    ("torch.nn.quantizable.", "torch.ao.nn.quantizable."),
    ("torch.nn.quantized.", "torch.ao.nn.quantized."),
    ("torch.nn.intrinsic.", "torch.ao.nn.intrinsic."),
    ("torch.functional.", "torch."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."),
    ("torch.cuda.streams.", "torch.cuda."),
    ("torch.xpu.streams.", "torch.xpu."),
    # what it returns has what torch.cuda has, whichever accelerator there is
    ("torch.get_device_module.", "torch.cuda."),
    ("torch.signal.windows.windows.", "torch.signal.windows."),
    ("torch.quantization.", "torch.ao.quantization."),
)


@lru_cache(1 << 14)
def canonical(name: str) -> str:
    """Return the name that the tables know a thing of torch by; any other name as it is."""
    if not name.startswith("torch."):
        return name
    if name in _ALIASES:
        return _ALIASES[name]
    if name.startswith("torch.nn.modules."):
        return _canonical_module(name)
    for prefix, replacement in _ALIAS_PREFIXES:
        if name.startswith(prefix):
            name = replacement + name[len(prefix) :]
            break
    if name.startswith("torch.ao.nn.") and ".modules." in name:
        return _without_submodule(name)
    return name


def _canonical_module(name: str) -> str:
    """Map `torch.nn.modules.linear.Linear` (and what hangs on the class) to `torch.nn.Linear`."""
    parts = name.split(".")
    for index, part in enumerate(parts[3:], start=3):
        if part in _NN:
            return ".".join(("torch.nn", *parts[index:]))
    return name


def _without_submodule(name: str) -> str:
    """Map `torch.ao.nn.qat.modules.conv.Conv2d` to `torch.ao.nn.qat.Conv2d`."""
    short = f"{name.partition('.modules.')[0]}.{name.rpartition('.')[2]}"
    return short if short in CONSTRUCTORS else name


# Where values go ---------------------------------------------------------------------------------

#: Methods of the known bases that call a hook of the class: name -> hooks.
LIFECYCLE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"post_init": ("_init_weights", "init_weights"), "init_weights": ("_init_weights",)}
)

#: Methods that the layers of torch.nn call in their own `__init__` (read in torch 2.13).
LAYER_HOOKS: Final = ("reset_parameters", "_reset_parameters", "reset_running_stats")

#: What becomes of a tensor that is an argument of these.  The losses keep `weight` (and
#: `pos_weight`) as buffers; embeddings take `_weight` as their parameter.
TENSOR_ARGUMENT_SINKS: Final[Mapping[str, Sink]] = MappingProxyType(
    {
        "torch.nn.Parameter": Sink.PARAMETER,
        "torch.nn.ParameterList": Sink.PARAMETER,
        "torch.nn.ParameterDict": Sink.PARAMETER,
        "torch.nn.Embedding": Sink.PARAMETER,
        "torch.nn.Embedding.from_pretrained": Sink.PARAMETER,
        "torch.nn.EmbeddingBag": Sink.PARAMETER,
        "torch.nn.EmbeddingBag.from_pretrained": Sink.PARAMETER,
        "torch.nn.Buffer": Sink.BUFFER,
        "torch.nn.BCELoss": Sink.BUFFER,
        "torch.nn.BCEWithLogitsLoss": Sink.BUFFER,
        "torch.nn.CrossEntropyLoss": Sink.BUFFER,
        "torch.nn.LinearCrossEntropyLoss": Sink.BUFFER,
        "torch.nn.MultiLabelSoftMarginLoss": Sink.BUFFER,
        "torch.nn.MultiMarginLoss": Sink.BUFFER,
        "torch.nn.NLLLoss": Sink.BUFFER,
        "torch.nn.NLLLoss2d": Sink.BUFFER,
    }
)

#: Methods of a module that take a tensor in, by bare name.
REGISTERING_METHODS: Final[Mapping[str, Sink]] = MappingProxyType(
    {"register_buffer": Sink.BUFFER, "register_parameter": Sink.PARAMETER}
)

#: Methods after which the value is where they say.  `to` may name a dtype only: its arguments
#: have to be looked at.  Those of other backends (npu, hpu, musa) come with their plugins.
MOVING_METHODS: Final[frozenset[str]] = _names(
    "cpu cuda hpu ipu mtia musa npu to to_empty type_as xla xpu"
)

#: Methods that need the values, or the memory, on the host.  On meta each is an error (`apply_`,
#: `map_`, `map2_`: do nothing, silently); on an accelerator each is a wait for it, a copy or an
#: error (`numpy`, `pin_memory`; `apply_` by its source), or loses its point (`share_memory_`).
HOST_METHODS: Final[frozenset[str]] = _names(
    """
    item tolist numpy pin_memory share_memory_ equal allclose is_nonzero apply_ map_ map2_
    __array__ __bool__ __complex__ __float__ __index__ __int__
    """
)

#: Methods that copy their argument to where self is.  (`index_copy_` and `scatter_` do not: they
#: want both on one device.)
COPYING_METHODS: Final[frozenset[str]] = frozenset({"copy_", "fill_"})

#: Attributes and methods that read what is known without the values: right on any device.
#: (`names` is gone since 2.13.)
#: Not `type`: with an argument it converts, and then the value flows on.
PROBES: Final[frozenset[str]] = _names(
    """
    const_data_ptr data_ptr dense_dim device dim dim_order dtype element_size get_device grad_dtype
    grad_fn is_coalesced is_complex is_conj is_contiguous is_cpu is_cuda is_distributed
    is_floating_point is_inference is_ipu is_leaf is_maia is_meta is_mkldnn is_mps is_mtia is_neg
    is_nested is_pinned is_quantized is_same_size is_set_to is_shared is_signed is_sparse
    is_sparse_csr is_vulkan is_xla is_xpu itemsize layout name names nbytes ndim ndimension
    nelement numel output_nr q_per_channel_axis q_scale q_zero_point qscheme requires_grad
    retains_grad shape size sparse_dim storage_offset storage_type stride volatile
    """
)

#: Methods that are probes only when called with nothing.
PROBES_WITHOUT_ARGUMENTS: Final[frozenset[str]] = frozenset({"type"})

#: Methods that exist plain and in place (`add`, `add_`).
_TWINS = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh as_strided asin asinh atan atan2 atanh baddbmm bernoulli
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil
    clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum deg2rad detach
    digamma div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmod
    frac gcd ge greater greater_equal gt heaviside hypot i0 igamma igammac index_add index_copy
    index_fill index_put index_reduce lcm ldexp le lerp less less_equal lgamma log log10 log1p log2
    logical_and logical_not logical_or logical_xor logit lt masked_fill masked_scatter mul multiply
    mvlgamma nan_to_num ne neg negative nextafter not_equal polygamma pow put rad2deg reciprocal
    relu remainder renorm resize resize_as round rsqrt scatter scatter_add scatter_reduce sgn
    sigmoid sign sin sinc sinh sqrt square squeeze sub subtract swapaxes swapdims t tan tanh
    transpose tril triu true_divide trunc unsqueeze xlogy
"""

#: Methods and properties (`T`, `real`, `data`) that exist in one form only.  `new_*` is here too:
#: its result is where self is.
_SINGLES = """
    H T adjoint all amax amin aminmax angle any argmax argmin argsort argwhere as_strided_scatter
    as_subclass bfloat16 bincount bmm bool broadcast_to byte cauchy_ ccol_indices cdouble cfloat
    chalf char cholesky cholesky_inverse cholesky_solve chunk clone coalesce col_indices conj
    contiguous copy_ corrcoef count_nonzero cov cross crow_indices cummax cummin data dequantize
    det diag diag_embed diagflat diagonal diagonal_scatter diff dist dot double dsplit eig expand
    expand_as exponential_ fill_ fill_diagonal_ flatten flip fliplr flipud float fmax fmin frexp
    gather geometric_ geqrf ger half hardshrink hash_tensor histc histogram hsplit imag index
    index_select indices inner int int_repr inverse isclose isfinite isinf isnan isneginf isposinf
    isreal istft kron kthvalue log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp logdet
    logsumexp long lstsq lu lu_solve mH mT masked_select matmul matrix_exp matrix_power max maximum
    mean median min minimum mm mode moveaxis movedim msort multinomial mv nanmean nanmedian
    nanquantile nansum narrow narrow_copy new new_empty new_empty_strided new_full new_ones
    new_tensor new_zeros nonzero nonzero_static norm normal_ orgqr ormqr outer permute pinverse
    positive prelu prod q_per_channel_scales q_per_channel_zero_points qr quantile random_ ravel
    real repeat repeat_interleave requires_grad_ reshape reshape_as resize_as_sparse_ resolve_conj
    resolve_neg roll rot90 row_indices select select_scatter set_ short signbit slice_inverse
    slice_scatter slogdet smm softmax solve sort sparse_mask sparse_resize_
    sparse_resize_and_clear_ split split_with_sizes sspaddmm std stft sum sum_to_size svd symeig
    take take_along_dim tensor_split tile to_dense to_mkldnn to_padded_tensor to_sparse
    to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr topk trace
    triangular_solve type unbind unflatten unfold uniform_ unique unique_consecutive unsafe_chunk
    unsafe_split unsafe_split_with_sizes values var vdot view view_as vsplit where zero_
"""

#: Methods and properties of a tensor whose result is computed from it, on its device.  Left out:
#: what is named above, and what returns no tensor (`backward`, hooks, storages).
TENSOR_METHODS: Final[frozenset[str]] = frozenset(
    (*_SINGLES.split(), *_TWINS.split(), *(f"{name}_" for name in _TWINS.split()))
)

#: Builtins that read the value of a tensor on the host; each fails on meta ("Tensor.item() cannot
#: be called on meta tensors").  bool, int, float, complex: conversions.  range, bin, oct, hex,
#: chr, slice bounds: through __index__.  any, all: truth of each element.  min, max, sorted: truth
#: of comparisons.  Not here: len, isinstance, id, type, hash (see PROBE_FUNCTIONS); sum, abs, pow,
#: divmod, reversed (compute a tensor); list, tuple, iter, enumerate, zip, map (hand out views);
#: round (a TypeError for tensors); str, repr, print, format (work on meta, and are for people).
HOST_FUNCTIONS: Final[frozenset[str]] = _names(
    "all any bin bool chr complex float hex int max min oct range sorted"
)

#: Modules whose functions read tensors on the host, through __float__ or __array__.
HOST_MODULES: Final[frozenset[str]] = frozenset({"cmath", "math", "numpy"})

#: Builtins that ask a tensor for no value: `len` is its first size, also on meta.
PROBE_FUNCTIONS: Final[frozenset[str]] = _names("callable hasattr hash id isinstance len type")

#: Names of dtypes below `torch.`, of torch 2.13.
TORCH_DTYPES: Final[frozenset[str]] = _names(
    """
    bfloat16 bit bits16 bits1x8 bits2x4 bits4x2 bits8 bool cdouble cfloat chalf complex128
    complex32 complex64 double float float16 float32 float4_e2m1fn_x2 float64 float8_e4m3fn
    float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int1 int16 int2 int3 int32
    int4 int5 int6 int64 int7 int8 long qint32 qint8 quint2x4 quint4x2 quint8 short uint1 uint16
    uint2 uint3 uint32 uint4 uint5 uint6 uint64 uint7 uint8
    """
)
