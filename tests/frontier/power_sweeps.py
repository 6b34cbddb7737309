"""Twelve measured power-limit sweeps, and what Zeus's three selectors choose on them.

Source: the test data of the Zeus repository (ml-energy/zeus, tests/profile_data), Apache-2.0, each one window of
training a limit. ``rows`` hold the limit in W, the seconds and the joules summed over all GPUs. A choice is a limit
with its energy and time against the highest limit, in per cent. Some sweeps are not monotone: that is real noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeus_core.frontier import Frontier, OperatingPoint, Setting, Window

Row = tuple[float, float, float]
Choice = tuple[float, float, float]


@dataclass(frozen=True)
class Sweep:
    """``max_slowdown`` is for ten per cent, ``zeus_cost`` for eta 0.5 with MaxPower over all GPUs."""

    name: str
    gpus: int
    rows: tuple[Row, ...]
    energy: Choice
    zeus_cost: Choice
    max_slowdown: Choice

    @property
    def max_power_w(self) -> float:
        return self.rows[0][0] * self.gpus

    @property
    def frontier(self) -> Frontier:
        """As measured, unfitted."""
        return Frontier.of(OperatingPoint(Setting(power_limit_w=w), s, j) for w, s, j in self.rows)

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(Window(Setting(power_limit_w=w), 1.0, s, j) for w, s, j in self.rows)


def _rows(limits: range, seconds: str, joules: str) -> tuple[Row, ...]:
    columns = zip(limits, map(float, seconds.split()), map(float, joules.split()), strict=True)
    return tuple((float(w), s, j) for w, s, j in columns)


A40 = range(300, 99, -25)
V100 = range(250, 99, -25)

SWEEPS = (
    Sweep(
        "A40 bert",
        1,
        _rows(
            A40,
            "10.554417 10.312253 11.252261 11.614739 12.503217 14.438276 17.387002 26.062785 45.138080",
            "2924.462 2758.486 2780.311 2599.288 2481.354 2523.741 2601.762 3240.520 4516.550",
        ),
        energy=(200, -15.2, 18.5),
        zeus_cost=(275, -5.7, -2.3),
        max_slowdown=(250, -4.9, 6.6),
    ),
    Sweep(
        "A40x4 resnet18",
        4,
        _rows(
            A40,
            "33.277512 33.005948 36.488919 36.661623 37.248075 36.395388 38.184570 36.326604 37.291013",
            "16520.021 16854.617 17857.274 17502.285 17132.962 16247.391 16423.172 15321.846 14955.822",
        ),
        energy=(100, -9.5, 12.1),
        zeus_cost=(300, 0.0, 0.0),
        max_slowdown=(125, -7.3, 9.2),
    ),
    Sweep(
        "A40 resnet18",
        1,
        _rows(
            A40,
            "9.216910 9.074575 10.411750 9.151887 10.378270 9.013508 10.623885 15.849030 27.211646",
            "2053.679 2051.020 2079.312 1835.954 1805.290 1535.358 1596.589 1962.854 2803.853",
        ),
        energy=(175, -25.2, -2.2),
        zeus_cost=(175, -25.2, -2.2),
        max_slowdown=(175, -25.2, -2.2),
    ),
    Sweep(
        "A40x4 resnet50",
        4,
        _rows(
            A40,
            "8.226085 8.025147 8.027752 8.313191 8.475580 8.265845 7.946044 8.140870 8.274237",
            "4318.739 4316.551 4278.600 4304.298 4305.120 4054.522 3738.347 3631.127 3392.441",
        ),
        energy=(100, -21.4, 0.6),
        zeus_cost=(150, -13.4, -3.4),
        max_slowdown=(100, -21.4, 0.6),
    ),
    Sweep(
        "A40 resnet50",
        1,
        _rows(
            A40,
            "24.011604 24.062183 24.163185 24.547975 25.185306 27.938947 36.850175 56.475552 69.362703",
            "6224.886 6122.302 5915.574 5499.972 5017.507 4867.478 5512.150 7071.861 8033.568",
        ),
        energy=(175, -21.8, 16.4),
        zeus_cost=(200, -19.4, 4.9),
        max_slowdown=(200, -19.4, 4.9),
    ),
    Sweep(
        "A40 shufflenet",
        1,
        _rows(
            A40,
            "1.679048 1.694651 1.710543 1.688012 1.696482 1.818329 1.784882 2.275111 4.410224",
            "328.660 328.702 328.801 336.575 330.223 306.220 268.701 286.206 439.545",
        ),
        energy=(150, -18.2, 6.3),
        zeus_cost=(150, -18.2, 6.3),
        max_slowdown=(150, -18.2, 6.3),
    ),
    Sweep(
        "V100 bert",
        1,
        _rows(
            V100,
            "13.367794 14.589461 14.377935 17.147405 16.218559 19.404635 26.674595",
            "3019.459 3081.479 2714.837 2883.124 2401.006 2400.314 2636.640",
        ),
        energy=(125, -20.5, 45.2),
        zeus_cost=(200, -10.1, 7.6),
        max_slowdown=(200, -10.1, 7.6),
    ),
    Sweep(
        "V100x2 resnet18",
        2,
        _rows(
            V100,
            "10.353666 10.476806 10.631612 10.597107 10.554147 11.049851 10.363855",
            "2763.688 2654.115 2449.214 2246.889 2052.224 1968.056 1770.759",
        ),
        energy=(100, -35.9, 0.1),
        zeus_cost=(100, -35.9, 0.1),
        max_slowdown=(100, -35.9, 0.1),
    ),
    Sweep(
        "V100 resnet18",
        1,
        _rows(
            V100,
            "9.991050 10.702984 10.235730 10.361988 10.183897 11.762294 15.577304",
            "1900.333 1832.896 1672.227 1551.781 1449.710 1449.188 1532.261",
        ),
        energy=(125, -23.7, 17.7),
        zeus_cost=(150, -23.7, 1.9),
        max_slowdown=(150, -23.7, 1.9),
    ),
    Sweep(
        "V100x2 resnet50",
        2,
        _rows(
            V100,
            "15.278669 15.585902 16.129018 16.662572 17.816051 20.861419 27.246736",
            "6664.765 6345.734 5859.684 5494.608 5194.938 5120.901 5325.673",
        ),
        energy=(125, -23.2, 36.5),
        zeus_cost=(175, -17.6, 9.1),
        max_slowdown=(175, -17.6, 9.1),
    ),
    Sweep(
        "V100 resnet50",
        1,
        _rows(
            V100,
            "26.674534 27.281091 28.313234 29.454168 32.412885 40.209291 53.866498",
            "6065.030 5815.523 5394.747 5059.208 4830.296 4969.586 5327.103",
        ),
        energy=(150, -20.4, 21.5),
        zeus_cost=(175, -16.6, 10.4),
        max_slowdown=(200, -11.1, 6.1),
    ),
    Sweep(
        "V100 shufflenet",
        1,
        _rows(
            V100,
            "1.793755 1.766621 1.758579 1.796160 1.831090 1.898869 1.991900",
            "301.329 301.116 296.709 292.286 260.446 227.940 198.143",
        ),
        energy=(100, -34.2, 11.0),
        zeus_cost=(100, -34.2, 11.0),
        max_slowdown=(125, -24.4, 5.9),
    ),
)
