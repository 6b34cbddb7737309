"""A training of one's own that follows the service: what it says of its batch size is what is in force."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from chase.client import Job  # noqa: E402
from chase.integrations.torch import Follower  # noqa: E402
from zeus_core.training.batch_plan import BatchPlan  # noqa: E402
from zeus_core.training.batching import Batching  # noqa: E402
from zeus_core.training.sampling import SampleLoader  # noqa: E402
from zeus_core.training.steps import Steps  # noqa: E402

PLAN = BatchPlan(24, 8, (4, 8, 12, 24), "accumulation")


class Training:
    """One process of it, whose memory is enough for microbatches of ``fits``."""

    def __init__(self, job, fits):
        self.job, self.fits, self.follower = job, fits, Follower(job)
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], 0.1)
        self.batching = Batching(PLAN, optimizer, on_change=self.follower.changed, on_out=self.follower.out)
        self.steps = Steps(self.batching, SampleLoader(TensorDataset(torch.arange(480.0)), chunk=24))

    def run(self, steps):
        for step in itertools.islice(self.steps, steps):
            with step:
                for micro in step:
                    if len(micro.data[0]) > self.fits:
                        raise torch.OutOfMemoryError("CUDA out of memory")
            self.follower.step(step, self.batching)


def job_of(service, wanted):
    """One that has heard what the service wants."""
    service.setting = {"batch_size": wanted}
    job = Job("job", units="samples", batch_size=PLAN.microbatch, batch_sizes=PLAN.microbatches).start()
    service.wait_for(lambda: job.batch_size == wanted, "of a job")
    return job


@pytest.mark.parametrize("fits", [12, 24])
@pytest.mark.parametrize("wanted", [4, 12])
def test_a_checkpoints_size_is_said_again(service, fits, wanted):
    """A job that goes on is another one to the service, and is told what is in force and what does not fit."""
    job = job_of(service, 24)
    first = Training(job, fits)
    first.run(4)
    first.batching.request(wanted)
    first.run(2)
    job.close()
    state = first.steps.state_dict()
    job = job_of(service, wanted)
    again = Training(job, fits)
    again.steps.load_state_dict(state)
    again.run(1)
    job.close()
    told = service.ended[job.id]
    assert (told["batch_size"], set(told.get("impossible", []))) == (again.batching.microbatch, again.batching.out)
    assert again.batching.microbatch == wanted
    assert told["units_done"] == 24


def test_its_own_size_does_not_fit(service):
    """The service hears of it, and of what it runs at instead, or it would wait for that size for ever."""
    job = job_of(service, PLAN.microbatch)
    training = Training(job, 4)
    training.run(3)
    assert job.batch_size == 4
    job.close()
    told = service.ended[job.id]
    assert (told["batch_size"], set(told["impossible"])) == (4, {8, 12, 24})
