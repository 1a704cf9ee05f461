package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// manyPulled is the number of records from which they are reported. They take 40 MiB and 10,000
// inodes, about as much as one image.
const manyPulled = 10_000

// PulledFacts are about the kubelet's records of the images that it pulled, one file each.
type PulledFacts struct {
	Dir   string // "": the kubelet has none, or is older than 1.35
	Count int
	Err   error
}

// readPulled counts the files, and reads none of them.
func (k *KubeletFacts) readPulled() {
	if !k.known() {
		return
	}
	path := filepath.Join(k.Settings.RootDir.V, "image_manager", "pulled")
	var dir *os.File
	var err error
	if p := k.Chosen; p != nil && !p.SameMounts() {
		dir, err = p.Open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	} else {
		dir, err = os.Open(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	k.Pulled = PulledFacts{Dir: path, Err: err}
	if err == nil {
		defer dir.Close()
		var names []string
		names, k.Pulled.Err = dir.Readdirnames(-1)
		k.Pulled.Count = len(names)
	}
}

// evaluatePulled checks how many records the kubelet has. The kubelet prunes its records only after
// it has itself looked for images to remove for space (GarbageCollect and DeleteUnusedImages in
// pkg/kubelet/images/image_gc_manager.go). On a node that never gets so full, they are kept,
// whoever removes the images.
func evaluatePulled(all *findings, f *Facts) {
	const id = "image-records"
	p := &f.Kubelet.Pulled
	found := fmt.Sprintf("the kubelet's records of pulled images: %d in %s", p.Count, p.Dir)
	switch {
	case p.Dir == "":
	case p.Err != nil:
		all.add(Note, id, fmt.Sprintf("the kubelet's records of pulled images could not be counted: %v", p.Err), "", "run this as root")
	case p.Count < manyPulled:
		all.ok(id, found)
	default:
		all.add(Note, id, found,
			"one for each image that it ever pulled, 4 KiB and an inode each, and it reads them when it starts; it removes those of images that are gone "+
				"only when the disk has reached imageGCHighThresholdPercent or its eviction threshold, so a threshold below 100 that is not reached changes nothing",
			`remove those of images that are gone, with the kubelet stopped: docs/kubelet.md, "Pull records"`,
			"leave those of images that are there: without its record a private image is free for every pod of this node")
	}
}
