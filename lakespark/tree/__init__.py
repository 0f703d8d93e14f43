"""The tree of one commit: a metarange, which is an ordered list of ranges of entries."""
