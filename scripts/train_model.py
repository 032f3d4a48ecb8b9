"""Train, calibrate and judge a model of market bars: the command `calibrant train`, as a script."""

import sys

from calibrant.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]], prog_name="train_model.py")
