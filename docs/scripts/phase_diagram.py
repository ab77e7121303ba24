"""When tokens meet: a phase diagram over β and d."""

import meanfield as mf

laws = [mf.SA(beta) for beta in (0.5, 1.0, 2.0, 4.0)]
for dim in (2, 8, 32):
    ds = mf.studies.phase_diagram(laws, dim, n=16, t_end=8.0, repeats=8, rng=0)
    met = ds["probability"].isel(t=-1)
    print(f"d = {dim}:", {float(b): float(p) for b, p in zip(ds["beta"], met, strict=True)})
mf.plot.save(mf.plot.phase_diagram(ds), "phase_diagram.png")
