"""Recalibrators of forecasts of a number: one file per method. `calibrant.forecasts` names what they offer."""
