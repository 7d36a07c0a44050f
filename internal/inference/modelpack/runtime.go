package modelpack

// NoTelemetry is an environment variable of ONNX Runtime: the value 1, set before the library is
// loaded, disables its usage reports to the vendor. Otherwise the library creates a database with
// an id of this machine, and connects to the vendor.
const NoTelemetry = "ORT_DISABLE_TELEMETRY"
