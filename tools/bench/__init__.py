"""This project's own figures: its plugins next to the reference's and to a floor, and whether targets are reached."""
