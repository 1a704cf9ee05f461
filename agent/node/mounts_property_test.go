package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// mounter mounts and unmounts at random, and knows what is where.
type mounter struct {
	*world
	random *rand.Rand
	disks  map[uint64]*plainDisk // by device number
	on     map[string]uint64     // directory → device number
	high   map[string]int        // the high threshold of a directory without images
}

// Whatever is mounted where, in any order: each superblock that a directory is
// on has one watermark, where a naive count puts it; and nothing else has one.
func TestAnyMounts(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.Filesystems.PodLogs.HighThresholdPercent = 70
				m := &mounter{
					world: w, random: rand.New(rand.NewPCG(seed, 1)), disks: map[uint64]*plainDisk{},
					on: map[string]uint64{"/": fakeDev}, high: map[string]int{kubeletDir: 85, logsDir: 70},
				}
				for _, dev := range []uint64{otherDev, thirdDev, 8<<20 | 49} {
					m.disks[dev] = m.newDisk(dev)
				}
				w.up()
				for step := range 60 {
					m.act()
					if m.random.IntN(3) > 0 {
						continue // more of it before the agent looks
					}
					w.pass(time.Second)
					if m.check(); t.Failed() {
						t.Fatalf("step %d: mounted are %v", step, m.on)
					}
				}
			})
		})
	}
}

func (m *mounter) newDisk(dev uint64) *plainDisk {
	return newPlainDisk(dev, (100+m.random.Uint64N(900))*mib)
}

func (m *mounter) act() {
	dir := []string{kubeletDir, logsDir, kubeletDir, logsDir, "/"}[m.random.IntN(5)]
	dev := slices.Sorted(maps.Keys(m.disks))[m.random.IntN(len(m.disks))]
	switch act := m.random.IntN(10); {
	case act < 3:
		m.disk.unmount(dir)
		delete(m.on, dir)
		m.on["/"] = max(m.on["/"], fakeDev) // what is below, the lowest number of all
	case act < 4: // unmounted everywhere, and another one gets its number
		m.disks[dev] = m.newDisk(dev)
		for dir := range m.on {
			if m.on[dir] == dev {
				m.disk.mount(dir, dev, "ext4", m.disks[dev].read)
			}
		}
	case act < 6:
		d := m.disks[dev]
		before := d.read()
		d.available.Store(d.capacity * m.random.Uint64N(100) / 100)
		m.kernel.wrote(dev, before, d.read())
	default:
		m.disk.mount(dir, dev, "ext4", m.disks[dev].read)
		m.on[dir] = dev
	}
}

// check counts which filesystems must have a watermark, and where.
func (m *mounter) check() {
	m.t.Helper()
	want := map[uint64]int{}
	for dir, dev := range m.on {
		if have, ok := want[dev]; dir != "/" && (!ok || m.high[dir] < have) {
			want[dev] = m.high[dir]
		}
	}
	want[m.on["/"]] = m.cfg.Images.HighThresholdPercent
	m.wantWatermarks(slices.Collect(maps.Keys(want))...)
	for dev, percent := range want {
		capacity := uint64(size)
		if d := m.disks[dev]; d != nil {
			capacity = d.capacity
		}
		m.wantRaise(dev, capacity, percent)
	}
}
