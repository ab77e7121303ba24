"""
Kuramoto's transition
=====================

Phases with Lorentzian frequencies lock above the coupling K = 2γ; the order parameter is then √(1 −
2γ/K), by Ott and Antonsen. One node with a width stands for the whole law of frequencies.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

width = 0.5
couplings = [0.5, 0.9, 1.2, 2.0, 3.0]
orders = []
for coupling in couplings:
    law = mf.FourierSeries(cos=[0.2])
    start = mf.OscillatorDensity(mf.Circle(64), law, frequencies=[0.0], widths=[width])
    sol = mf.evolve(start, mf.Kuramoto(coupling), t_end=40.0, save_at=1)
    orders.append(sol.dataset.order_parameter.values[-1])

# %%
expected = np.sqrt(np.maximum(0.0, 1.0 - 2.0 * width / np.array(couplings)))
print(np.round(orders, 6), np.round(expected, 6))
# at K = 0.9 what is left decays like e^{-0.05 t}
assert np.abs(np.array(orders) - expected).max() < 0.02

figure = Figure(figsize=(4.5, 3.0), layout="constrained")
ax = figure.add_subplot()
K = np.linspace(2.0 * width, 3.0, 200)
ax.plot(K, np.sqrt(1.0 - 2.0 * width / K), color="0.6", label="Ott and Antonsen")
ax.plot(couplings, orders, "o", label="runs at t = 40")
ax.set(xlabel="coupling K", ylabel="order parameter r")
ax.legend(frameon=False)
