"""Run a whole campaign from Python: the verbs of the command line, with the same files in the same folder."""

from pathlib import Path
from tempfile import TemporaryDirectory

import excitor as ex

with TemporaryDirectory() as place:
    campaign = ex.Campaign.begin(Path(place) / "cell", "rotradi", "arm")
    campaign.design(evaluations=600)
    print(campaign.results["design"].forecast.checks[0].sentence)
    campaign.emit("csv", allow=["no-go"]).simulate("csv", seed=1).identify()
    for stage in campaign.status():
        print(f"{stage.name:20} {stage.state}")
    model = ex.load_model(campaign.folder)
    print(model)
