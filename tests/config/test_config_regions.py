from __future__ import annotations

import os
import re
import traceback
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from chase.config import load, load_region, region_file
from chase.config.models import SignalConfig
from chase.config.regions import SourceConfig
from chase.errors import ConfigError
from providers import registry
from providers.base import BadRequest
from providers.session import Session

SECRET = "Hunter2-abcdef"


def _error(path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_region(path)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_a_region_file_of_ones_own(write, region_text):
    """What a file leaves out has defaults; what it says is there."""
    found = load_region(write(region_text, "home.toml"))

    assert (found.pue, found.typical, found.policy) == (1.0, None, {})
    assert found.sources[0].options == {"path": "/var/lib/grid.csv"}


def test_a_token_is_read_when_asked_and_never_shown():
    """The secret comes from the variable that is named, stripped, and its text form is stars."""
    source = SourceConfig(provider="electricity_maps", zone="DE", token_env="GRID_TOKEN")

    token = source.token({"GRID_TOKEN": f" {SECRET}\n"})

    assert isinstance(token, SecretStr)
    assert token.get_secret_value() == SECRET
    assert SECRET not in f"{token} {token!r} {source!r} {source.model_dump_json()}"


@pytest.mark.parametrize("env", [{}, {"GRID_TOKEN": ""}, {"GRID_TOKEN": "  \n"}])
def test_a_token_that_is_not_set_is_none(env):
    """Unset and blank are the same: no token."""
    assert SourceConfig(provider="x", zone="y", token_env="GRID_TOKEN").token(env) is None
    assert SourceConfig(provider="x", zone="y").token(env) is None


def test_a_token_comes_from_the_environment_of_the_moment(monkeypatch):
    """The process's own environment is the default, as it is when asked."""
    monkeypatch.setitem(os.environ, "GRID_TOKEN", SECRET)

    assert SourceConfig(provider="x", zone="y", token_env="GRID_TOKEN").token().get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (('"home"', '"Home Region"'), 3, 'region.id = "Home Region": must be small letters, digits and -'),
        (('name = "Home"', "name = 5"), 4, "region.name = 5: must be text in quotes"),
        (('name = "Home"', ""), 2, "region.name is missing; add it (Name for people)"),
        (('"Europe/Berlin"', '"Europe/Berlim"'), 5, "must be an IANA time zone; did you mean 'Europe/Berlin'?"),
        (('"Europe/Berlin"', '"../../etc/passwd"'), 5, "must be an IANA time zone"),
        (('"Europe/Berlin"', '"qqqqqq"'), 5, "must be an IANA time zone, such as 'Europe/London'"),
        (('"average"', '"avg"'), 6, "region.signal = \"avg\": must be 'average' or 'marginal'"),
        (('"lifecycle"', '"lifecicle"'), 7, "did you mean 'lifecycle'?"),
        (('"EUR"', '"euro"'), 8, "region.currency = \"euro\": must be three capitals (ISO 4217), such as 'EUR'"),
        (('"EUR"', '"EUR"\npue = 0.9'), 9, "region.pue = 0.9: must be greater than or equal to 1"),
        (('"EUR"', '"EUR"\npeu = 1.1'), 9, "region.peu is not a setting; did you mean pue?"),
        (('"EUR"', '"EUR"\nsources = []'), 9, "sources stands under [region]; it has a table of its own"),
        (
            ("[region]", "[regions]"),
            2,
            "regions is not a table of a region file; there are region, sources, prices",
        ),
        (("[region]", ""), 0, "has no [region] table, so it is not a region file"),
        (("[region]", ""), 3, "id is not a table of a region file; put it under [region]"),
        (('"file"', '"files"'), 11, "is unknown; did you mean 'file'? There are: "),
        (('"file"', '"qqqqqq"'), 11, "is unknown; there are: "),
        (('zone = "home"', ""), 10, "sources.0.zone is missing; add it (The zone by the provider's own id)"),
        (('zone = "home"', 'zone = ""'), 12, 'sources.0.zone = "": must not be empty'),
        (("path =", "auth-token ="), 13, "must not hold auth-token: name an environment variable in token_env instead"),
        (("path =", "apiKey ="), 13, "must not hold apiKey"),
        (('path = "/var/lib/grid.csv"', "path = [1]"), 13, "options.path = [1]: must be text, a number, true or false"),
        (("[[sources]]", "[sources]"), 10, "sources = { ... }: must be a list"),
    ],
)
def test_a_mistake_in_a_region_file_is_named(write, region_text, change, line, said):
    """Every kind of wrong fact or source has its own sentence with its line; 0 stands for the file as a whole."""
    path = write(region_text.replace(*change, 1), "home.toml")

    begin = f"{path}:{line}: " if line else f"{path}: "
    assert any(text.startswith(begin) and said in text for text in _error(path).splitlines())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('region = "x"', "sources.0.region is not a setting; there are provider, zone, token_env, base_url, options"),
        (f'token = "{SECRET}"', "sources.0.token is not a setting; did you mean token_env?"),
        (f'secret = "{SECRET}"', "a secret belongs into an environment variable, and its NAME into token_env"),
        (f'token_env = "{SECRET}"', "must be the NAME of an environment variable"),
        ("token_env = 5", "sources.0.token_env: must be text in quotes"),
        (f'base_url = "https://u:{SECRET}@x.org"', "must hold no user, password or query"),
        (f'base_url = "https://x.org/?k={SECRET}"', "must hold no user, password or query"),
        (f'base_url = "{SECRET}"', "must be an http:// or https:// address"),
        (f'base_url = "https://[{SECRET}"', "must be an http:// or https:// address"),
        (f'base_url = "ftp://{SECRET}"', "must be an http:// or https:// address"),
    ],
)
def test_secrets_in_a_source_are_refused_and_not_repeated(write, region_text, line, said):
    """A token, where only the name of its variable belongs, is refused; neither message nor traceback holds it."""
    path = write(f"{region_text}{line}\n", "home.toml")

    error = _error(path)

    assert error.startswith(f"{path}:14: ")
    assert said in error


def test_all_mistakes_of_a_region_file_come_at_once(write, region_text):
    """Facts and sources are told together."""
    text = region_text.replace('"average"', '"avg"').replace('zone = "home"', "zone = 5").replace('"EUR"', '"E"')

    assert len(_error(write(text, "home.toml")).splitlines()) == 3


def test_defaults_in_a_region_file_are_checked_as_settings(write, region_text, env):
    """[policy] and [signal] of a region file get the errors of the service file, all at once."""
    path = write(f"{region_text}\n[policy]\ndwel_s = 5\neta = 2\n[signal]\nfresh_s = 0\npolicy = 1\n", "home.toml")

    lines = _error(path).splitlines()

    assert [line.split(": ")[1] for line in lines] == [
        "policy.dwel_s is not a setting; did you mean dwell_s?",
        "policy.eta = 2",
        "signal.fresh_s = 0",
        f"signal.policy is not a setting; there are {', '.join(SignalConfig.model_fields)}",
    ]


def test_a_clash_between_region_and_service_names_the_region_file(write, region_text, env):
    """A region's default that is good alone and impossible with the service file is shown where it stands."""
    path = write(f'{region_text}\n[policy]\nspeed_below = "p90"\n', "home.toml")

    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}:16: policy.speed_below and "):
        load(region=path, env=env)


@pytest.mark.parametrize("table", ["policy = 3", "signal = 3", "typical = 3", "region = 3"])
def test_a_table_must_be_a_table(write, region_text, table):
    """A value where a table belongs is refused by its name."""
    name = table.split(" ", maxsplit=1)[0]
    body = "" if name == "region" else region_text

    assert f"{name} must be a table: write [{name}]" in _error(write(f"{table}\n{body}", "home.toml"))


def test_signal_average_belongs_under_region(write, region_text):
    """The kind of signal at the top of a region file, where [signal] is a table of settings, is told where to go."""
    assert "signal must be a table" in _error(write(f'signal = "average"\n{region_text}', "home.toml"))


def test_the_same_source_twice_is_refused(write, region_text):
    """A source that is listed again, under another token or none, would be asked twice for nothing."""
    source = region_text[region_text.index("[[sources]]") :]

    error = _error(path := write(f'{region_text}{source}token_env = "OTHER"\n', "home.toml"))

    assert error == f"{path}:14: sources.1 (file home) is sources.0 again; remove one"


def test_two_sources_that_differ_in_anything_are_two(write, region_text):
    """The same provider for another zone or with other options is another source."""
    source = region_text[region_text.index("[[sources]]") :]
    text = region_text + source.replace("grid.csv", "other.csv") + source.replace('zone = "home"', 'zone = "x"')

    assert len(load_region(write(text, "home.toml")).sources) == 3


def _typical(rows: int = 12, hours: int = 24, value: object = 100, scope: str = "lifecycle") -> str:
    row = f"[{', '.join([str(value)] * hours)}]"
    table = ",\n".join([row] * rows)
    return f'[typical]\nsource = "s"\nyear = 2023\nlicence = "l"\nscope = "{scope}"\ng_per_kwh = [\n{table}\n]\n'


def test_a_typical_profile_alone_is_a_region(write, region_text):
    """A region that nobody measures can live on a past year."""
    text = region_text[: region_text.index("[[sources]]")] + _typical()

    assert load_region(write(text, "home.toml")).typical.at(12, 23) == 100


@pytest.mark.parametrize(
    ("typical", "said"),
    [
        (_typical(rows=11), "typical.g_per_kwh = [[100, 100"),
        (_typical(rows=11), "must have at least 12 values, and has 11"),
        (_typical(hours=25), "typical.g_per_kwh.0 = [100, 100"),
        (_typical(hours=23), "must have at least 24 values, and has 23"),
        (_typical(value=-1), "typical.g_per_kwh.0.0 = -1: must be greater than or equal to 0"),
        (_typical(value="nan"), "typical.g_per_kwh.0.0 = nan: must be a finite number"),
        (_typical(value='"100"'), 'typical.g_per_kwh.0.0 = "100": must be a number'),
        (_typical(value=50_000), "must be less than or equal to 5000"),
        (_typical(scope="direct"), "typical is direct and region.scope is lifecycle; they are never mixed"),
        (_typical().replace("2023", "23"), "typical.year = 23: must be greater than or equal to 2000"),
        (_typical().replace('licence = "l"\n', ""), "typical.licence is missing; add it"),
    ],
)
def test_a_typical_profile_is_checked_cell_by_cell(write, region_text, typical, said):
    """12 months of 24 finite intensities of the region's own scope, with their source and licence, or an error."""
    assert said in _error(write(region_text + typical, "home.toml"))


def test_a_region_without_any_source_is_refused(write, region_text):
    """Without a source and without a typical profile there would never be a signal."""
    path = write(region_text[: region_text.index("[[sources]]")], "home.toml")

    assert _error(path) == f"{path}:2: has neither [[sources]] nor [typical]; with nothing to ask there is no signal"


def test_a_region_by_name_cannot_leave_its_folder():
    """A name is a name; only what looks like a path is one."""
    with pytest.raises(ConfigError, match="is unknown"):
        load_region("..")


def _with_source(region_text: str, scope: str, provider: str, options: str) -> str:
    facts = region_text[: region_text.index("[[sources]]")].replace('"lifecycle"', f'"{scope}"')
    return f'{facts}[[sources]]\nprovider = "{provider}"\nzone = "GB"\noptions = {{ {options} }}\n'


_MIXED = [
    ("lifecycle", "neso", "", 11, "sources.0 (neso) gives direct intensities only"),
    ("lifecycle", "neso", "regionid = 3", 11, "remove the source or set region.scope = "),
    ("direct", "electricity_maps", "", 10, "gives lifecycle intensities unless told"),
    ("direct", "electricity_maps", 'version = "v4"', 10, 'set options.scope = "direct"'),
    ("direct", "electricity_maps", 'scope = "lifecycle"', 13, 'sources.0.options.scope = "lifecycle" and region.scope'),
    ("lifecycle", "electricity_maps", 'scope = "direct"', 13, 'sources.0.options.scope = "direct" and region.scope'),
    ("lifecycle", "file", 'path = "a.csv", scope = "direct"', 13, "they are never mixed, so make them one"),
    ("direct", "file", 'path = "a.csv", scope = "lifecycle"', 13, 'region.scope is "direct"'),
    ("direct", "static", 'scope = "lifecycle"', 13, 'region.scope is "direct"'),
    *(
        ("lifecycle", name, "", 11, f"sources.0 ({name}) gives direct intensities only")
        for name in ("caiso", "energinet", "rte")
    ),
    *(
        ("direct", name, "", 10, f"sources.0 ({name}) gives lifecycle intensities unless told")
        for name in ("eia", "entsoe", "ieso", "smard")
    ),
    ("lifecycle", "open_electricity", "", 10, "sources.0 (open_electricity) gives direct intensities unless told"),
    ("direct", "energy_charts", 'scope = "lifecycle"', 13, 'sources.0.options.scope = "lifecycle" and region.scope'),
]


@pytest.mark.parametrize(("scope", "provider", "options", "line", "said"), _MIXED)
def test_a_source_of_another_scope_than_the_regions_is_refused(
    write, region_text, *, scope, provider, options, line, said
):
    """By what is said, by what is not said, or by what the provider is: the line, the clash and the way out."""
    path = write(_with_source(region_text, scope, provider, options), "home.toml")

    error = _error(path)

    assert error.startswith(f"{path}:{line}: ")
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("scope", "provider", "options"),
    [
        ("direct", "neso", ""),
        ("lifecycle", "electricity_maps", ""),
        *((scope, "electricity_maps", f'scope = "{scope}"') for scope in ("direct", "lifecycle")),
        *((scope, "file", f'path = "a.csv", scope = "{scope}"') for scope in ("direct", "lifecycle")),
        *((scope, "file", 'path = "a.csv"') for scope in ("direct", "lifecycle")),
        *((scope, "file", 'path = "a.csv", scope = "unspecified"') for scope in ("direct", "lifecycle")),
        *((scope, "static", "") for scope in ("direct", "lifecycle")),
        *((scope, "energy_charts", "") for scope in ("direct", "lifecycle")),
        *(("direct", name, "") for name in ("caiso", "energinet", "open_electricity", "rte")),
        *(("lifecycle", name, "") for name in ("eia", "entsoe", "ieso", "smard")),
        *(("direct", name, 'scope = "direct"') for name in ("eia", "entsoe", "ieso", "smard", "open_electricity")),
    ],
)
def test_a_source_of_the_regions_scope_or_of_none_is_taken(write, region_text, scope, provider, options):
    """Only a contradiction is refused; a file or a profile that does not say may be either."""
    assert load_region(write(_with_source(region_text, scope, provider, options), "home.toml")).scope == scope


def test_every_source_of_another_scope_is_told(write, region_text):
    """The second and the third source are looked at like the first."""
    text = _with_source(region_text, "lifecycle", "neso", "")
    more = '[[sources]]\nprovider = "file"\nzone = "x"\noptions = { path = "a.csv", scope = "direct" }\n'

    assert [line.split(": ")[1].split()[0] for line in _error(write(text + more, "home.toml")).splitlines()] == [
        "sources.0",
        "sources.1.options.scope",
    ]


class _Answers(Session):
    """A session that keeps what it was asked and gives one answer."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer, self.params = answer, {}

    def get_json(self, _url: str, *, params=None, **_) -> object:
        self.params = dict(params or {})
        return self.answer


_NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def _observed(provider: str, session: _Answers):
    made = registry.create(provider, zone="GB", options={}, token="t", base_url=None, session=session, now=lambda: _NOW)
    return made.observe(_NOW - timedelta(minutes=30), _NOW)


def test_neso_gives_the_one_scope_that_it_is_refused_by():
    """What the check believes of the provider is what its points say."""
    row = {"from": "2026-03-02T11:30Z", "to": "2026-03-02T12:00Z", "intensity": {"actual": 90}}

    (point,) = _observed("neso", _Answers({"data": [row]}))

    assert point.scope == region_file._ONLY_SCOPE["neso"]


def test_electricity_maps_gives_the_scope_that_is_assumed_when_none_is_said():
    """What the check believes of the provider's default is what it asks for."""
    session = _Answers({"zone": "GB", "datetime": "2026-03-02T11:30:00Z", "carbonIntensity": 90})

    _observed("electricity_maps", session)

    assert session.params["emissionFactorType"] == region_file._SCOPE_UNSAID["electricity_maps"]


def test_a_source_of_another_signal_is_refused(tmp_path):
    """Average and marginal intensities are never mixed: a file source that says marginal in an average region."""
    file = tmp_path / "lab.toml"
    file.write_text(
        '[region]\nid = "lab"\nname = "Lab"\ntime_zone = "UTC"\nsignal = "average"\nscope = "direct"\n'
        'currency = "EUR"\n[[sources]]\nprovider = "file"\nzone = "XX"\n'
        'options = { path = "x.csv", scope = "direct", signal = "marginal" }\n'
    )
    with pytest.raises(ConfigError, match=r"sources\.0\.options\.signal = .marginal. and region\.signal is .average."):
        load_region(file)


# What is believed of providers


ZONES = {
    "caiso": "US-CAL-CISO",
    "eia": "US-CAL-CISO",
    "energinet": "DK-DK1",
    "energy_charts": "DE",
    "entsoe": "FR",
    "ieso": "CA-ON",
    "neso": "GB",
    "octopus": "GB",
    "open_electricity": "NSW1",
    "rte": "FR",
    "smard": "DE",
}


def _made(provider: str, *, create=registry.create, **options: object):
    given = {"zone": ZONES.get(provider, "GB"), "options": options, "token": "user:t", "base_url": None}
    return create(provider, session=_Answers({}), now=lambda: _NOW, **given)


@pytest.mark.parametrize("provider", region_file._ONLY_SCOPE)
def test_a_provider_of_one_scope_has_no_option_for_another(provider):
    """What is refused in a region of another scope could not have been told otherwise."""
    with pytest.raises(BadRequest, match="scope"):
        _made(provider, scope="lifecycle")


@pytest.mark.parametrize(
    ("provider", "scope"), [item for item in region_file._SCOPE_UNSAID.items() if item[0] != "electricity_maps"]
)
def test_a_provider_that_is_not_told_gives_the_scope_that_is_assumed(provider, scope):
    """The default in the code is the one that the check believes in, and it takes the option."""
    assert _made(provider)._scope == scope
    assert _made(provider, scope="direct")._scope == "direct"


@pytest.mark.parametrize("provider", sorted(region_file._ONLY_AVERAGE))
def test_a_provider_of_averages_has_no_option_signal(provider):
    """So it cannot serve a marginal region, whatever is said."""
    with pytest.raises(BadRequest, match="signal"):
        _made(provider, signal="marginal")


def test_watttime_gives_marginal_intensities_unless_told():
    """The default in the code is the one that the check believes in."""
    assert _made("watttime")._signal == region_file._SIGNAL_UNSAID["watttime"] == "marginal"


@pytest.mark.parametrize(
    ("signal", "provider", "options", "said"),
    [
        ("average", "watttime", "", 'gives marginal intensities unless told, and region.signal is "average"'),
        ("marginal", "watttime", 'signal = "average"', 'sources.0.options.signal = "average" and region.signal is'),
        ("marginal", "neso", "", "sources.0 (neso) gives average intensities only"),
        ("marginal", "electricity_maps", 'scope = "direct"', "gives average intensities only"),
        ("average", "file", 'path = "a.csv", signal = "marginal"', "they are never mixed, so make them one"),
    ],
)
def test_average_and_marginal_are_never_mixed(write, region_text, *, signal, provider, options, said):
    """By what is said, by what is not said, or by what the provider is."""
    text = _with_source(region_text, "direct", provider, options).replace('"average"\nscope', f'"{signal}"\nscope')

    assert said in _error(write(text, "home.toml"))


@pytest.mark.parametrize(("signal", "options"), [("marginal", ""), ("average", 'signal = "average"')])
def test_watttime_serves_a_region_of_its_signal(write, region_text, signal, options):
    """Marginal as it is, average where it is told."""
    text = _with_source(region_text, "direct", "watttime", options).replace('"average"\nscope', f'"{signal}"\nscope')

    assert load_region(write(text, "home.toml")).signal == signal


@pytest.mark.parametrize(("provider", "currency"), region_file._CURRENCY_UNSAID.items())
def test_a_provider_of_prices_gives_the_currency_that_is_assumed(provider, currency):
    """Where it takes an option, its default in the code is the one that the check believes in."""
    options = {"gsp": "C"} if provider == "octopus" else {}
    made = _made(provider, create=registry.create_prices, **options)

    assert getattr(made, "_currency", currency) == currency
