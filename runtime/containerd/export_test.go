package containerd

// SnapshotterTimeout is for a test that does not wait as long.
var SnapshotterTimeout = &snapshotterTimeout
