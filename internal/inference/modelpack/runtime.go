package modelpack

// NoTelemetry is a setting of ONNX Runtime: 1 in the environment, before the library is loaded,
// keeps it from telling its maker who uses it for what. Without it the library makes a database
// with an id of this machine, and connects.
const NoTelemetry = "ORT_DISABLE_TELEMETRY"
