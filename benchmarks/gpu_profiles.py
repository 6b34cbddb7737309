"""The GPU profiles of ``config/profiles``, written from the measurements of the Zeus NSDI'23 artifact.

    python benchmarks/gpu_profiles.py            compare what is shipped with the data
    python benchmarks/gpu_profiles.py --write    write the profiles

``CHASE_DATA`` is the folder of the data (default ``../shared/data``). A profile is one workload at its default batch
size: for each power limit the seconds of one epoch (divided by the samples of an epoch where their number is certain)
and the average power. Energy is their product; the limit itself is not what the GPU draws.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "config" / "profiles"


@dataclass(frozen=True, slots=True)
class Card:
    key: str
    name: str
    idle_w: float
    idle_note: str


@dataclass(frozen=True, slots=True)
class Workload:
    """``samples`` of one epoch, None where the number that was trained on is not certain."""

    key: str
    dataset: str
    network: str
    batch_size: int
    optimizer: str
    title: str
    samples: int | None


CARDS = (
    Card(
        "a40",
        "NVIDIA A40",
        70.38,
        "Power while blocked in communication, from the Perseus SOSP'24 artifact: a card with a job that does no\n"
        "# work. Without any job an A40 draws less, but no published figure was at hand",
    ),
    Card("v100", "NVIDIA V100", 70.0, "As the Zeus NSDI'23 paper gives it for the V100"),
)
WORKLOADS = (
    Workload("resnet50", "imagenet", "resnet50", 256, "adadelta", "ResNet-50 on ImageNet", 1_281_167),
    Workload("bert-squad", "squad", "bert_base_uncased", 32, "adamw", "BERT base on SQuAD", None),
    Workload("shufflenet", "cifar100", "shufflenetv2", 1024, "adadelta", "ShuffleNet v2 on CIFAR-100", 50_000),
)


def data_dir() -> Path:
    return Path(os.environ.get("CHASE_DATA") or ROOT.parent / "shared" / "data")


def points(card: Card, workload: Workload, data: Path) -> list[tuple[float, float, float]]:
    """(power limit in W, seconds for a unit, watts), highest limit first."""
    with (data / "zeus_nsdi23" / f"summary_power_{card.key}.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if _is(row, workload)]
    found = [
        (
            float(row["power_limit"]),
            float(f"{float(row['time_per_epoch']) / (workload.samples or 1):.6g}"),
            round(float(row["average_power"]), 2),
        )
        for row in rows
    ]
    return sorted(found, reverse=True)


def text(card: Card, workload: Workload, data: Path) -> str:
    found = points(card, workload, data)
    unit = "sample" if workload.samples else "epoch"
    of_epoch = f"time of an epoch / {workload.samples} samples" if workload.samples else "time of an epoch"
    head = [
        f"# {workload.title}, batch size {workload.batch_size}, {workload.optimizer}, on one {card.name}.",
        f"# seconds_per_unit is the {of_epoch}; watts is the average power drawn.",
        "# Energy is watts times seconds: the limit is not what the card draws, and below some limit it draws more.",
        "# Written by benchmarks/gpu_profiles.py.",
        f'name = "{card.key}-{workload.key}"',
        f'gpu = "{card.name}"',
        f'workload = "{workload.title}, batch size {workload.batch_size}"',
        f'unit = "{unit}"',
        'source = "Zeus NSDI\'23 artifact (github.com/ml-energy/zeus), measured power limit sweep"',
        'licence = "Apache-2.0"',
        f"min_w = {found[-1][0]:g}",
        f"max_w = {found[0][0]:g}",
        f"default_w = {found[0][0]:g}",
        f"# {card.idle_note}.",
        f"idle_w = {card.idle_w:g}",
    ]
    rows = [
        f"\n[[point]]\npower_limit_w = {limit:g}\nseconds_per_unit = {seconds:.6g}\nwatts = {watts:g}"
        for limit, seconds, watts in found
    ]
    return "\n".join(head + rows) + "\n"


def profiles() -> Iterator[tuple[str, Card, Workload]]:
    for card in CARDS:
        for workload in WORKLOADS:
            yield f"{card.key}-{workload.key}", card, workload


def main(arguments: list[str]) -> int:
    data = data_dir()
    if not (data / "zeus_nsdi23").is_dir():
        print(f"{data}: the data is not here; set CHASE_DATA to its folder", file=sys.stderr)
        return 1
    wrong = 0
    for name, card, workload in profiles():
        path, wanted = PROFILES / f"{name}.toml", text(card, workload, data)
        if "--write" in arguments:
            path.write_text(wanted, encoding="utf-8")
        same = path.is_file() and path.read_text(encoding="utf-8") == wanted
        wrong += not same
        verdict = "as shipped" if same else "DIFFERS from what is shipped"
        print(f"{name}: {len(points(card, workload, data))} power limits, {verdict}")
    return 1 if wrong else 0


def _is(row: dict[str, str], workload: Workload) -> bool:
    wanted = (workload.dataset, workload.network, str(workload.batch_size), workload.optimizer)
    return (row["dataset"], row["network"], row["batch_size"], row["optimizer"]) == wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
