"""The report of a study: plain values from records (`build`), pictures, and the pages that show them (`rendering`)."""
