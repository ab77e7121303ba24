"""What every test shares: Hypothesis draws the same inputs on every machine, however slow it is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "meanfield",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("meanfield")
