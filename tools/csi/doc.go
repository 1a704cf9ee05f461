// Package csi is a small CSI driver that really keeps what it is told to keep: a volume is
// a directory. It serves identity, controller and node on a Unix socket, and passes
// csi-test's sanity suite. Left alone it behaves; a [Config] has it misbehave as real ones
// do.
//
//	d, err := csi.Start(csi.Config{Name: "directories.example.com", Socket: socket, Root: root})
//	id, err := d.Make("a")      // a volume, and something in it
//	there := d.Has(id)
//	d.Stop()
//
// Deleting what is not there succeeds, as the specification wants it. Publishing is a
// symbolic link, so that no right is needed.
package csi
