"""Joules, grams and money of an interval and of a job, and what of them was saved (docs/accounting.md).

Notation, per interval i:

    u_i   units of work                                                    [unit]
    s_i   seconds                                                          [s]
    e_i   energy drawn by all GPUs of the job, and its host's              [J]
    c_i   price of a joule: intensity_i * PUE / 3.6e6                      [g/J], or money alike
    E_0, T_0   energy, host's included, and time a unit at full power      [J/unit], [s/unit]

    R = sum u_i E_0 c(tau_i)      the same work at full power over its own time line: tau_i is when it would be done
    F = c E*(U, S)                the same work at the best fixed setting, done when we were at the latest
    A = sum e_i c_i               what was drawn

    saved = R - A   =   efficiency + timing,      efficiency = R - F,      timing = F - A

tau_i begins at sum over j < i of u_j T_0 and of all time without progress, which is the same on both sides (G25: no
saving is booked on it). E*(U, S) is the least energy that does U = sum u_i within S = sum s_i at one fixed setting, or
a fixed mix of two hull neighbours, and c the mean of c_i over the time that takes, since a fixed setting draws the same
power all along: S, or less where the setting of least energy needs no more.
Under a constant intensity timing is therefore never positive: it is minus what was lost by moving along a convex
frontier (papers.md 0 and A.9: nearly all of the published saving is efficiency). The frontier's own error falls into
timing. R' = sum u_i E_0 c_i, each unit at the intensity of when we did it, is what single intervals are compared with.

``booking`` makes and prices intervals, ``compared`` says which have a counterfactual, ``split`` computes R, F and A,
``doubt`` how uncertain they are, and ``summary`` the account of a job.
"""

from __future__ import annotations

from chase.accounting.booking import interval, reprice
from chase.accounting.split import best_fixed, hosted
from chase.accounting.summary import JobSummary, summarise

__all__ = ["JobSummary", "best_fixed", "hosted", "interval", "reprice", "summarise"]
