"""One file per part of a screen: a Snapshot in, text out."""
