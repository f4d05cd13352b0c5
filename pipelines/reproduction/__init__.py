"""What `pipelines.reproduce` is made of: the rows of the paper's tables, the data, the stages, what comes out."""
