"""The range of the price of a batch."""

from random import Random

from manager.costs.measured import ASSUMED, FEWEST_SAMPLES, Calibration, HostSample, batch_range, prices

TRUE = 0.8 * ASSUMED.batch


def calibrated(samples: int, *, batch: float, noise: float, rates: tuple[float, ...] = (0.0, 1.0, 3.0)) -> Calibration:
    """Return the calibration for a host with batches of this price, at several rates in turn."""
    draw = Random(samples)
    found = Calibration()
    for number in range(samples):
        rate = rates[number % len(rates)]
        cores = ASSUMED.host + batch * rate + draw.gauss(0.0, noise)
        found = found.learn(HostSample(seconds=60.0, cpu=cores * 60, batches=round(rate * 60), bridges=0.0, paused=0.0))
    return found


def test_an_unmeasured_price_lies_between_half_and_double() -> None:
    """That is so before any fit, and if all samples are alike, so that batches cannot be separated from the host."""
    assert (ASSUMED.batch / 2, ASSUMED.batch * 2) == batch_range(Calibration())
    assert (ASSUMED.batch / 2, ASSUMED.batch * 2) == batch_range(calibrated(FEWEST_SAMPLES - 1, batch=TRUE, noise=0.0))
    low, high = batch_range(calibrated(200, batch=TRUE, noise=0.0003, rates=(1.0,)))
    assert high - low > ASSUMED.batch / 4


def test_measuring_narrows_the_range_around_the_truth() -> None:
    """More samples with less scatter give a narrower range, which contains the true price."""
    found = [
        calibrated(FEWEST_SAMPLES, batch=TRUE, noise=0.0015),
        calibrated(100, batch=TRUE, noise=0.0015),
    ]
    widths = []
    for each in found:
        low, high = batch_range(each)
        assert low <= TRUE <= high
        assert low <= prices(each).batch <= high
        widths.append(high - low)
    assert ASSUMED.batch * 1.5 > widths[0] > widths[1] > 0
    scattered = batch_range(calibrated(100, batch=TRUE, noise=0.03))
    assert scattered[1] - scattered[0] > widths[1]
