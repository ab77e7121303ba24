"""A run that is killed and then resumed, to the same bits."""

import subprocess
import sys

import meanfield as mf

RUN = """import os, meanfield as mf
end = {"end": lambda mu: os.kill(os.getpid(), 9) if mu.mean()[0] > 0.3 else 0.0}
mu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5]))
mf.evolve(mu, mf.SA(4.0), t_end=2.0, monitors=end, checkpoint="killed.nc")"""
status = subprocess.run([sys.executable, "-c", RUN], check=False).returncode
print("exit status", status)
assert status == -9, "the run was not killed"
print(mf.resume("killed.nc", monitors={"end": lambda mu: 0.0}))
