"""The bundled apps in one: what `onceward up` runs when it is told nothing else."""

from onceward import Onceward

app = Onceward("onceward_apps")
