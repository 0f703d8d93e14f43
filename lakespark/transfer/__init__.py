"""Folders into a branch and out of a ref, and refs into any store: many files at once, in parallel, with progress."""

from lakespark.transfer.download import download_file, download_folder
from lakespark.transfer.export import Exported, export
from lakespark.transfer.progress import OnProgress, Progress, Transferred
from lakespark.transfer.upload import upload_file, upload_folder

__all__ = [
    "Exported",
    "OnProgress",
    "Progress",
    "Transferred",
    "download_file",
    "download_folder",
    "export",
    "upload_file",
    "upload_folder",
]
