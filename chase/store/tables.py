"""The tables of the log, as SQL: what the migrations run, and what a reader needs to know of them.

Times are UTC text of one width (``2026-01-31T08:00:00.000000Z``), so that their order as text is their order in time.
No STRICT tables and no JSON functions: the SQLite 3.34 that sites still run could then not open the file at all.
Values are checked on the way in (``rows.py``) instead.
"""

from __future__ import annotations

from types import MappingProxyType

APPLICATION_ID = 0x43484153  # "CHAS": tells our file from somebody else's SQLite database
MIGRATION_SET = "chase"
VERSIONS = ("m001_log",)  # in order; a name in the file that is not here was written by a newer chase

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

# What may be exported, and the column that ``since`` is compared with.
EXPORTS = MappingProxyType(
    {
        "decisions": "at_utc",
        "events": "at_utc",
        "forecasts": "end_utc",
        "frontiers": "made_at_utc",
        "holds": "made_at_utc",
        "intervals": "end_utc",
        "jobs": "registered_at_utc",
        "signal_points": "end_utc",
        "windows": "measured_at_utc",
    }
)
