module github.com/sluice-rag/sluice/tools/datasets

go 1.26.0
