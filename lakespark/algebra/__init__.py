"""The rules of versioning, once, as SQL text. Nothing here runs a query; engines do.

Frames stand in the text in braces. Those with entries have the columns of ``lakespark.entries``.
"""
