module ringgate.invalid/day

go 1.23
