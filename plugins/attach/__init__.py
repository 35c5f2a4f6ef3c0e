"""The sequence of an attachment that interface plugins share."""
