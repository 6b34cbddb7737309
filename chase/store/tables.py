"""The tables of the log, as SQL: what the migrations run, and what a reader needs to know of them.

Times are UTC text of one width (``2026-01-31T08:00:00.000000Z``), so that their order as text is their order in time.
No STRICT tables and no JSON functions: the SQLite 3.34 that sites still run could then not open the file at all.
Values are checked on the way in (``rows.py``) instead.

What grows by the hour is kept small (m002): of the signal, its forecasts and the prices each row holds numbers alone,
the texts that say what it is stand once in ``series`` and ``labels``, and a time is seconds since 1970, which take four
bytes where they are whole. Views show it all with the names and times of the other tables.
"""

from __future__ import annotations

from types import MappingProxyType

APPLICATION_ID = 0x43484153  # "CHAS": tells our file from somebody else's SQLite database
MIGRATION_SET = "chase"
# In order; others are newer.
VERSIONS = ("m001_log", "m002_compact", "m003_accounts", "m004_frontiers_once", "m005_recurrences")

_POINT_COLUMNS = """
    id INTEGER PRIMARY KEY,
    zone TEXT NOT NULL,
    source TEXT NOT NULL,
    signal TEXT NOT NULL,
    scope TEXT NOT NULL,
    boundary TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_utc TEXT NOT NULL,
    end_utc TEXT NOT NULL,
    intensity_g_per_kwh REAL NOT NULL,
    method TEXT NOT NULL,
    issued_at_utc TEXT,
    updated_at_utc TEXT,
    fetched_at_utc TEXT NOT NULL
"""

M001_LOG = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"CREATE TABLE signal_points ({_POINT_COLUMNS})",
    "CREATE INDEX signal_points_zone_end ON signal_points (zone, end_utc)",
    f"CREATE TABLE forecasts ({_POINT_COLUMNS})",
    "CREATE INDEX forecasts_zone_end ON forecasts (zone, end_utc)",
    """CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    uid INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    gpus_json TEXT NOT NULL,
    units TEXT NOT NULL,
    region TEXT NOT NULL,
    registered_at_utc TEXT NOT NULL,
    total_units REAL,
    units_done REAL NOT NULL,
    policy_json TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'ended')),
    ended_at_utc TEXT,
    end_reason TEXT NOT NULL
)""",
    """CREATE TABLE windows (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    measured_at_utc TEXT NOT NULL,
    power_limit_w REAL,
    setting_json TEXT NOT NULL,
    units REAL NOT NULL,
    duration_s REAL NOT NULL,
    energy_j REAL NOT NULL
)""",
    "CREATE INDEX windows_key ON windows (key)",
    """CREATE TABLE frontiers (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    made_at_utc TEXT NOT NULL,
    point_count INTEGER NOT NULL,
    reference_power_limit_w REAL,
    reference_s_per_unit REAL NOT NULL,
    reference_j_per_unit REAL NOT NULL,
    frontier_json TEXT NOT NULL,
    windows_json TEXT NOT NULL
)""",
    "CREATE INDEX frontiers_key_made_at ON frontiers (key, made_at_utc)",
    """CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    at_utc TEXT NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    trigger TEXT NOT NULL,
    mode TEXT NOT NULL,
    policy TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    power_limit_w REAL,
    intensity_g_per_kwh REAL,
    intensity_kind TEXT NOT NULL,
    intensity_age_s REAL,
    control TEXT NOT NULL,
    inputs_json TEXT NOT NULL,
    choice_json TEXT NOT NULL,
    applied_json TEXT NOT NULL
)""",
    "CREATE INDEX decisions_at ON decisions (at_utc)",
    "CREATE INDEX decisions_job_at ON decisions (job_id, at_utc)",
    """CREATE TABLE intervals (
    id INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    start_utc TEXT NOT NULL,
    end_utc TEXT NOT NULL,
    units REAL NOT NULL,
    energy_j REAL NOT NULL,
    method TEXT NOT NULL,
    power_limit_w REAL,
    intensity_g_per_kwh REAL,
    intensity_kind TEXT NOT NULL,
    grams REAL,
    reference_energy_j REAL,
    reference_s REAL,
    reference_grams REAL,
    progress INTEGER NOT NULL CHECK (progress IN (0, 1))
)""",
    "CREATE INDEX intervals_job_start ON intervals (job_id, start_utc)",
    "CREATE INDEX intervals_start ON intervals (start_utc)",
    """CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_utc TEXT NOT NULL,
    code TEXT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'error')),
    message TEXT NOT NULL,
    job_id TEXT,
    gpu TEXT,
    data_json TEXT NOT NULL
)""",
    "CREATE INDEX events_at ON events (at_utc)",
    """CREATE TABLE holds (
    id INTEGER PRIMARY KEY,
    mode TEXT NOT NULL,
    made_at_utc TEXT NOT NULL,
    uid INTEGER NOT NULL,
    until_utc TEXT,
    job_id TEXT,
    ended_at_utc TEXT
)""",
    """CREATE VIEW decisions_readable AS
    SELECT decisions.id, substr(at_utc, 1, 19) || 'Z' AS at_utc, jobs.name AS job, trigger, mode,
        power_limit_w, round(intensity_g_per_kwh, 1) AS intensity_g_per_kwh, intensity_kind,
        round(intensity_age_s / 60.0, 1) AS intensity_age_min, policy, control, reason
    FROM decisions LEFT JOIN jobs ON jobs.id = decisions.job_id""",
    """CREATE VIEW jobs_readable AS
    SELECT jobs.id, name, region, state, substr(registered_at_utc, 1, 19) || 'Z' AS registered_at_utc,
        substr(ended_at_utc, 1, 19) || 'Z' AS ended_at_utc, end_reason, units_done, total_units, jobs.units,
        round(sum(energy_j) / 3.6e6, 4) AS energy_kwh, round(sum(grams), 1) AS grams
    FROM jobs LEFT JOIN intervals ON intervals.job_id = jobs.id GROUP BY jobs.id""",
    """CREATE VIEW signal_newest AS
    SELECT * FROM signal_points WHERE id IN (
        SELECT max(id) FROM signal_points GROUP BY zone, source, signal, scope, boundary, start_utc)""",
)

_INTENSITY_SERIES = "zone, source, signal, scope, boundary"
_PRICE_SERIES = "zone, source, currency, market"


def _series_table(name: str, identity: str) -> str:
    texts = "".join(f"    {column} TEXT NOT NULL,\n" for column in identity.split(", "))
    return f"""CREATE TABLE {name} (
    id INTEGER PRIMARY KEY,
{texts}    longest_s REAL NOT NULL,
    UNIQUE ({identity})
)"""


def _row_table(name: str, series: str, value: str) -> tuple[str, str]:
    return (
        f"""CREATE TABLE {name} (
    id INTEGER PRIMARY KEY,
    series_id INTEGER NOT NULL REFERENCES {series} (id),
    label_id INTEGER NOT NULL REFERENCES labels (id),
    start_unix_s INTEGER NOT NULL,
    length_s INTEGER NOT NULL,
    {value} REAL NOT NULL,
    issued_unix_s INTEGER,
    updated_unix_s INTEGER,
    fetched_unix_s INTEGER NOT NULL
)""",
        f"CREATE INDEX {name}_start ON {name} (series_id, start_unix_s)",
    )


def _utc(seconds: str) -> str:
    """The SQL for seconds since 1970 as our text. No ``floor``: SQLite may have been built without it."""
    whole = f"(CAST({seconds} AS INTEGER) - ({seconds} < CAST({seconds} AS INTEGER)))"
    micro = f"CAST(round(({seconds} - {whole}) * 1e6) AS INTEGER)"
    return f"strftime('%Y-%m-%dT%H:%M:%S', {whole}, 'unixepoch') || printf('.%06dZ', {micro})"


_TIMES = f"""{_utc("updated_unix_s")} AS updated_at_utc, {_utc("fetched_unix_s")} AS fetched_at_utc"""
_SPAN = f"""{_utc("start_unix_s")} AS start_utc, {_utc("start_unix_s + length_s")} AS end_utc"""


def _point_view(name: str, rows: str) -> str:
    return f"""CREATE VIEW {name} AS
    SELECT {rows}.id, {_INTENSITY_SERIES}, kind, {_SPAN}, intensity_g_per_kwh, remark AS method,
        {_utc("issued_unix_s")} AS issued_at_utc, {_TIMES}
    FROM {rows} JOIN series ON series.id = series_id JOIN labels ON labels.id = label_id"""


def _moved(old: str, new: str) -> str:
    """A row whose times cannot be read is left behind. ``unix_s`` and ``span_s`` are functions of ours."""
    return f"""INSERT OR IGNORE INTO {new}
    SELECT {old}.id, series.id, labels.id, unix_s(start_utc), span_s(start_utc, end_utc), intensity_g_per_kwh,
        unix_s(issued_at_utc), unix_s(updated_at_utc), unix_s(fetched_at_utc)
    FROM {old} JOIN series USING ({_INTENSITY_SERIES}) JOIN labels ON labels.kind = {old}.kind AND remark = method
    ORDER BY {old}.id"""


_OLD_POINTS = "(SELECT * FROM signal_points UNION ALL SELECT * FROM forecasts)"

M002_COMPACT = (
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, remark TEXT NOT NULL, UNIQUE (kind, remark))",
    _series_table("series", _INTENSITY_SERIES),
    _series_table("price_series", _PRICE_SERIES),
    *_row_table("signal_rows", "series", "intensity_g_per_kwh"),
    *_row_table("forecast_rows", "series", "intensity_g_per_kwh"),
    *_row_table("price_rows", "price_series", "price_per_kwh"),
    f"INSERT INTO labels (kind, remark) SELECT DISTINCT kind, method FROM {_OLD_POINTS} ORDER BY 1, 2",
    f"""INSERT INTO series ({_INTENSITY_SERIES}, longest_s)
    SELECT {_INTENSITY_SERIES}, max(coalesce(span_s(start_utc, end_utc), 0)) FROM {_OLD_POINTS}
    GROUP BY {_INTENSITY_SERIES}""",
    _moved("signal_points", "signal_rows"),
    _moved("forecasts", "forecast_rows"),
    "DROP VIEW signal_newest",
    "DROP TABLE signal_points",
    "DROP TABLE forecasts",
    _point_view("signal_points", "signal_rows"),
    _point_view("forecasts", "forecast_rows"),
    """CREATE VIEW signal_newest AS
    SELECT * FROM signal_points WHERE id IN (SELECT max(id) FROM signal_rows GROUP BY series_id, start_unix_s)""",
    f"""CREATE VIEW price_points AS
    SELECT price_rows.id, {_PRICE_SERIES}, {_SPAN}, price_per_kwh, remark AS licence, {_TIMES}
    FROM price_rows JOIN price_series ON price_series.id = series_id JOIN labels ON labels.id = label_id""",
)

_ACCOUNTS = (
    "host_energy_j REAL NOT NULL DEFAULT 0",
    "reference_host_energy_j REAL",
    "pue REAL",
    "used_intensity_g_per_kwh REAL",
    "used_intensity_kind TEXT NOT NULL DEFAULT ''",
    "intensity_source TEXT NOT NULL DEFAULT ''",
    "price_per_kwh REAL",
    "price_kind TEXT NOT NULL DEFAULT ''",
    "currency TEXT NOT NULL DEFAULT ''",
    "cost REAL",
    "reference_cost REAL",
    "embodied_grams REAL",
)

M003_ACCOUNTS = (
    *(f"ALTER TABLE intervals ADD COLUMN {column}" for column in _ACCOUNTS),
    "DROP VIEW jobs_readable",
    """CREATE VIEW jobs_readable AS
    SELECT jobs.id, name, region, state, substr(registered_at_utc, 1, 19) || 'Z' AS registered_at_utc,
        substr(ended_at_utc, 1, 19) || 'Z' AS ended_at_utc, end_reason, units_done, total_units, jobs.units,
        round(sum(energy_j) / 3.6e6, 4) AS energy_kwh, round(sum(host_energy_j) / 3.6e6, 4) AS host_energy_kwh,
        round(sum(grams), 1) AS grams, round(sum(cost), 4) AS cost, max(currency) AS currency
    FROM jobs LEFT JOIN intervals ON intervals.job_id = jobs.id GROUP BY jobs.id""",
)

# A frontier is four fifths of a decision, and the same for days: where a decision has a digest, its own JSON has none.
M004_FRONTIERS_ONCE = (
    "ALTER TABLE decisions ADD COLUMN frontier_digest TEXT",
    """CREATE TABLE decision_frontiers (
    id INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    frontier_digest TEXT NOT NULL,
    made_at_utc TEXT NOT NULL,
    frontier_json TEXT NOT NULL,
    UNIQUE (job_id, frontier_digest)
)""",
)

# Nothing of these is ever dropped: they are a row for each training, and what is learnt of one is of use for years.
M005_RECURRENCES = (
    """CREATE TABLE recurrences (
    key TEXT PRIMARY KEY,
    uid INTEGER NOT NULL,
    name TEXT NOT NULL,
    spec_json TEXT NOT NULL,
    changed_at_utc TEXT NOT NULL,
    pinned_batch_size INTEGER,
    first_trial INTEGER NOT NULL
)""",
    """CREATE TABLE trials (
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL,
    eta REAL NOT NULL,
    reason TEXT NOT NULL,
    began_at_utc TEXT NOT NULL,
    ended_at_utc TEXT,
    energy_j REAL NOT NULL,
    duration_s REAL NOT NULL,
    epochs INTEGER NOT NULL,
    metric REAL,
    gpu_model TEXT NOT NULL,
    max_power_w REAL NOT NULL,
    PRIMARY KEY (key, number)
)""",
)

# All of a file of ours.
TABLES = frozenset(
    {
        *("jobs", "windows", "frontiers", "decisions", "decision_frontiers", "intervals", "events", "holds"),
        *("recurrences", "trials"),
        *("series", "price_series", "labels", "signal_rows", "forecast_rows", "price_rows"),
    }
)

# What may be exported, tables and views, and the column that ``since`` is compared with.
EXPORTS = MappingProxyType(
    {
        "decision_frontiers": "made_at_utc",
        "decisions": "at_utc",
        "events": "at_utc",
        "forecasts": "end_utc",
        "frontiers": "made_at_utc",
        "holds": "made_at_utc",
        "intervals": "end_utc",
        "jobs": "registered_at_utc",
        "price_points": "end_utc",
        "recurrences": "changed_at_utc",
        "signal_points": "end_utc",
        "trials": "began_at_utc",
        "windows": "measured_at_utc",
    }
)
