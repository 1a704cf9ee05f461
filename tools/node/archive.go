package node

import (
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// WriteArchive writes images as an archive for "ctr images import", for nodes that this
// package did not make. With sandbox it includes the sandbox image.
func WriteArchive(w io.Writer, sandbox bool, list ...Image) error {
	var all []archivable
	if sandbox {
		all = append(all, pause{})
	}
	for _, image := range list {
		all = append(all, image)
	}
	built := make([]v1.Image, len(all))
	for i, image := range all {
		img, err := image.build()
		if err != nil {
			return fmt.Errorf("build image %q: %w", image.names()[0], err)
		}
		built[i] = img
	}
	if err := writeArchive(w, all, built); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}
