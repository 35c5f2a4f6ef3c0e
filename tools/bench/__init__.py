"""The figures of this project: its plugins beside the reference's and a floor, judged by its targets."""
