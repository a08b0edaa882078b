"""The rules, in the order of their codes; all but DVL100 judge one call site at a time.

In: the rule files.  Out: `RULES`, written down one by one (a rule is added here and nowhere else),
and the same by code.  Never here: discovery, registration or selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from devicelint.model import Rule
from devicelint.rules import (
    dvl001_attribute_without_device,
    dvl002_parameter_without_device,
    dvl003_buffer_without_device,
    dvl004_tensor_without_device,
    dvl005_stream_without_device,
    dvl006_generator_without_device,
    dvl007_legacy_constructor,
    dvl008_host_memory_constructor,
    dvl009_host_value_without_cpu,
    dvl010_device_not_forwarded,
    dvl011_import_time_tensor,
    dvl012_process_group_without_device_id,
    dvl100_unused_suppression,
)

RULES: Final[tuple[Rule, ...]] = (
    dvl001_attribute_without_device.RULE,
    dvl002_parameter_without_device.RULE,
    dvl003_buffer_without_device.RULE,
    dvl004_tensor_without_device.RULE,
    dvl005_stream_without_device.RULE,
    dvl006_generator_without_device.RULE,
    dvl007_legacy_constructor.RULE,
    dvl008_host_memory_constructor.RULE,
    dvl009_host_value_without_cpu.RULE,
    dvl010_device_not_forwarded.RULE,
    dvl011_import_time_tensor.RULE,
    dvl012_process_group_without_device_id.RULE,
    dvl100_unused_suppression.RULE,
)

RULES_BY_CODE: Final[Mapping[str, Rule]] = MappingProxyType({rule.code: rule for rule in RULES})
