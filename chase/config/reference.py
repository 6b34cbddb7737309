"""What may be configured, written from the models: ``config/chase.toml``, the tables of ``docs/configuration.md``, and
the list of regions in ``docs/regions.md``.

python -m chase.config.reference toml > config/chase.toml
python -m chase.config.reference tables
python -m chase.config.reference regions
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from datetime import datetime
from statistics import fmean
from textwrap import wrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chase.config.models import Config
from chase.config.problems import model_in, show
from chase.config.region_file import load_region
from chase.config.regions import RegionConfig, SourceConfig, TypicalProfile
from chase.config.shipped import region_ids

_HEAD = """\
# Settings of the chase service: every key, with its unit and its default.
#
# Looked for at: --config FILE, $CHASE_CONFIG, ~/.config/chase/chase.toml, /etc/chase/chase.toml; without any of them
# these defaults hold. Stronger than this file: the region's file, a job's own wishes (its policy only), the environment
# (CHASE_SECTION__KEY, such as CHASE_CONTROL__INTERVAL_S=5), and flags. `chase config show --origin` tells who set what.
# An unknown key is an error. No secret belongs in here: region files name environment variables.
"""


def toml() -> str:
    """The service file as shipped. A key whose default is nothing, or depends on the user, is commented out."""
    return _HEAD + "".join(_section(name, field) for name, field in Config.model_fields.items())


def tables() -> str:
    """One Markdown table for each section of the service file, then for each table of a region file."""
    parts = [_table(f"[{name}]", field.description or "", _model(field)) for name, field in Config.model_fields.items()]
    hidden = {"sources", "prices", "policy", "signal_defaults", "embodied", "typical"}
    parts += [
        _table("Region file: [region]", "The grid", RegionConfig, hidden),
        _table("Region file: [[sources]]", "Who is asked, in this order; [[prices]] alike, for prices", SourceConfig),
        _table("Region file: [typical]", "The last fallback", TypicalProfile),
    ]
    return "\n".join(parts)


def regions() -> str:
    """A Markdown table of the regions that ship."""
    head = "| region | place | sources, in order | scope | prices | typical, g/kWh |\n|---|---|---|---|---|---|\n"
    return head + "".join(_region_row(load_region(name)) for name in region_ids())


def _region_row(region: RegionConfig) -> str:
    sources, prices = (", ".join(map(_asked, given)) for given in (region.sources, region.prices))
    typical = region.typical
    mean = fmean(value for month in typical.table for value in month) if typical else 0.0
    about = f"{mean:.0f}, {'flat' if typical and typical.flat else 'hourly'}" if typical else ""
    return f"| `{region.id}` | {region.name} | {sources} | {region.scope} | {prices} | {about} |\n"


def _asked(source: SourceConfig) -> str:
    """A source that needs no key stands out."""
    return source.provider if source.token_env else f"**{source.provider}**"


def allowed(schema: Mapping[str, Any]) -> str:
    """The values that a key takes, in short, from its JSON schema."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return " or ".join(_kind(kind) for kind in kinds)


_WORDS = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "true or false",
    "array": "list",
    "object": "table",
}
_LIMITS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    word = {"path": "absolute path", "date-time": "UTC time"}.get(schema.get("format", "")) or _WORDS[schema["type"]]
    limits = [f"{sign} {schema[name]:.10g}" for name, sign in _LIMITS.items() if name in schema]
    return " ".join([word, *limits])


def _section(name: str, field: FieldInfo) -> str:
    keys = [_entry(key, inner) for key, inner in _model(field).model_fields.items()]
    return f"\n# {field.description}.\n[{name}]\n{''.join(keys)}"


def _entry(key: str, field: FieldInfo) -> str:
    comment = "".join(f"# {line}\n" for line in wrap(f"{field.description}.", 116))
    if _fixed(field):
        return f"{comment}{key} = {show(field.default)}\n"
    example = (field.examples or [""])[0]
    shown = example.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(example, datetime) else show(example)
    return f"{comment}# {key} = {shown}\n"


def _fixed(field: FieldInfo) -> bool:
    """Whether there is one default, for everybody."""
    return field.default_factory is None and field.default is not None and not field.is_required()


def _table(title: str, text: str, model: type[BaseModel], hidden: Collection[str] = ()) -> str:
    properties = model.model_json_schema()["properties"]
    rows = [_row(name, properties[name], field) for name, field in model.model_fields.items() if name not in hidden]
    head = "| key | values | default | meaning |\n|---|---|---|---|\n"
    return f"### {title}\n\n{text}.\n\n{head}{''.join(rows)}"


def _row(name: str, schema: Mapping[str, Any], field: FieldInfo) -> str:
    default = f"`{show(field.default)}`" if _fixed(field) else "required" if field.is_required() else ""
    return f"| `{name}` | {allowed(schema)} | {default} | {field.description} |\n"


def _model(field: FieldInfo) -> type[BaseModel]:
    found = model_in(field.annotation)
    if found is None:
        raise TypeError(f"{field.annotation} is not a section")
    return found


if __name__ == "__main__":
    sys.stdout.write({"toml": toml, "tables": tables, "regions": regions}[sys.argv[1]]())
