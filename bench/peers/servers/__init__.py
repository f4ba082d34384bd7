"""The servers that ringgate is held against, and ringgate itself: how each is installed, started and stopped."""
