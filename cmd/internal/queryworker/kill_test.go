package queryworker

func runIfWorkerChild() bool { return false }
