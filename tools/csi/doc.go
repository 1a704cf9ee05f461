// Package csi is a small CSI driver with real storage: a volume is a directory. It serves
// identity, controller and node on a Unix socket, and passes csi-test's sanity suite. By
// default it behaves correctly; a [Config] makes it misbehave as real drivers do.
//
//	d, err := csi.Start(csi.Config{Name: "directories.example.com", Socket: socket, Root: root})
//	id, err := d.Make("a")      // a volume, and something in it
//	there := d.Has(id)
//	d.Stop()
//
// Deleting a missing volume succeeds, as the specification requires. Publishing makes a
// symbolic link, so that it needs no privileges.
package csi
