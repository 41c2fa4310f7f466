module github.com/hawkeye-audit/hawkeye

go 1.24

require (
	github.com/klauspost/cpuid/v2 v2.2.10
	github.com/x448/float16 v0.8.4
	pgregory.net/rapid v1.2.0
)

require (
	golang.org/x/sync v0.12.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
