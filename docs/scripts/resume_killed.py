"""A run that is killed and then resumed, to the same bits."""

import multiprocessing
import time
from pathlib import Path

import meanfield as mf


def run(file: str) -> None:
    law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
    mf.evolve(mf.FlowMap(law), mf.SA(4.0), t_end=40.0, save_at=400, checkpoint=file)


if __name__ == "__main__":
    process = multiprocessing.Process(target=run, args=("killed.nc",))
    process.start()
    while not Path("killed.nc").exists():
        time.sleep(0.1)
    process.kill()
    print(mf.resume("killed.nc"))
