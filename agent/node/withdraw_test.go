package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// What turns up while an image's names are away brings them back.
func TestImageIsNeededAtTheLastMoment(t *testing.T) {
	for why, during := range map[string]func(*world, bpf.Key){
		"wanted by":                        wantsI0,
		"in use by snapshot elsewhere/new": usesI0,
		"used since":                       ranI0,
	} {
		t.Run(why, func(t *testing.T) {
			staysAfterAll(t, why, func(i0 string, happens func()) fake.Faults {
				return fake.Faults{During: func(id string) {
					if id == i0 {
						happens()
					}
				}}
			}, during)
		})
	}
}

func wantsI0(w *world, _ bpf.Key) { w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i0"}}) }
func usesI0(w *world, _ bpf.Key)  { w.rt.Snapshot("elsewhere", "new", "shares-i0") }
func ranI0(w *world, key bpf.Key) { w.kernel.ran(key) }

const i0Name = "docker.io/library/i0:latest"

// staysAfterAll has something happen to the image i0, once, when faults call it. The image stays, and
// the log has why.
func staysAfterAll(t *testing.T, why string, faults func(i0 string, happens func()) fake.Faults, what func(*world, bpf.Key)) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		i0 := w.add(i0Name, 40)
		// Of the same layers, in the other namespace, so that something can come
		// to use them while the names are away.
		w.rt.Import("elsewhere", fake.Image{Name: "shares-i0", Config: "other", Layers: []fake.Layer{
			{Name: i0Name, Bytes: 20 * mib, Inodes: 10, BlobBytes: 20 * mib}}})
		w.add("i1", 100)
		w.up()
		w.use(i0Name)
		w.use("i1")
		key, happened := w.keyOf(i0), false
		w.rt.SetFaults(faults(i0, func() {
			if !happened {
				happened = true
				what(w, key)
			}
		}))
		w.fill(99)
		w.pass(time.Second)
		if slices.Contains(w.rt.Removed(), i0) {
			t.Error("it was removed")
		}
		if !happened {
			t.Error("nothing happened to it: there is nothing to test")
		}
		if w.logs.count("image kept by the last check", i0, why) == 0 {
			t.Error("the log does not have the reason")
		}
	})
}

// For the first image that goes the latest list has to do, unless the runtime has reported a
// change since: then it is read anew.
func TestFirstImageIsNotReadAnew(t *testing.T) {
	for name, changed := range map[string]bool{"no change reported": false, "change reported": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.five()
				w.pass(time.Minute)
				w.rt.SetFaults(fake.Faults{Check: errors.New("timeout")})
				if changed {
					w.add("i0", 40) // again, so that it is the youngest
				}
				w.fill(81)
				if changed {
					w.wantRemoved()
				} else {
					w.wantRemoved(ids[0])
				}
			})
		})
	}
}

// An image that has changed since it was read stays for this pass.
func TestImageHasChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.SetFaults(fake.Faults{Withdraw: inventory.ErrChanged})
		w.fill(81)
		w.wantRemoved()
		w.wantLogged(0, "could not be removed")
		if w.logs.count("image kept by the last check", "it has changed since the plan was made") == 0 {
			t.Error("the reason is not logged")
		}
		w.rt.SetFaults(fake.Faults{})
		w.pass(time.Hour)
		w.wantRemoved(ids[0], ids[1])
	})
}

// A withdrawal that cannot be ended is mended, also by the next agent, and the
// image is removed after all.
func TestWithdrawalIsMended(t *testing.T) {
	for name, again := range map[string]func(*world){
		"by the same agent": func(w *world) { w.pass(time.Hour) },
		"by the next agent": func(w *world) { w.down(); w.up(); w.pass(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.five()
				w.rt.SetFaults(fake.Faults{End: errors.New("bolt: timeout")})
				w.fill(81)
				w.wantRemoved()
				if n, _ := w.rt.Inventory(context.Background()); len(n.Images) == 5 {
					t.Fatal("no image lost its names: there is nothing to test")
				}
				w.rt.SetFaults(fake.Faults{})
				again(w)
				if n := w.metric("ebb_node_images_restored_total"); n == 0 {
					t.Error("nothing was mended")
				}
				if got := len(w.rt.Removed()); got != 2 {
					t.Errorf("%d images removed, want 2 of %q", got, ids)
				}
				inv, err := w.rt.Inventory(context.Background())
				if err != nil || len(inv.Images) != 3 {
					t.Errorf("%d images are left, %v; want 3", len(inv.Images), err)
				}
			})
		})
	}
}

// An image that cannot be removed has its names back before another one loses its own.
func TestRemovalFailsWithoutNames(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		listed := true
		w.rt.SetFaults(fake.Faults{
			Complete: map[string]error{ids[0]: errors.New("bolt: timeout")},
			During: func(id string) {
				if id != ids[0] {
					inv, err := w.rt.Inventory(t.Context())
					listed = listed && err == nil && slices.ContainsFunc(inv.Images, func(i inventory.Image) bool { return i.ID == ids[0] })
				}
			},
		})
		w.fill(81)
		w.pass(time.Second)
		w.wantRemoved(ids[1], ids[2])
		w.wantLogged(1, "image could not be removed", ids[0], "bolt: timeout")
		if !listed {
			t.Error("it had no names when the next one went")
		}
		if n := w.metric("ebb_node_images_restored_total"); n != 0 {
			t.Errorf("%v images waited for the next look", n)
		}
	})
}

// The names of one image cannot be restored at once. They are back before another image is chosen in its place.
func TestNamesAreBackBeforeOthersGo(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		faults := fake.Faults{Complete: map[string]error{ids[0]: errors.New("bolt: timeout")}}
		faults.During = func(id string) {
			if id != ids[0] {
				w.wantNames(5 - len(w.rt.Removed()) - 1)
				return
			}
			faults.Restore = errors.New("bolt: timeout")
			w.rt.SetFaults(faults)
		}
		w.rt.SetFaults(faults)
		w.fill(81)
		w.pass(500 * time.Millisecond) // before any retry
		w.wantRemoved(ids[1], ids[2])
		w.wantNames(3)
		if n := w.metric("ebb_node_images_restored_total"); n == 0 {
			t.Error("nothing was mended: there is nothing to test")
		}
	})
}

// What a run could not restore is tried again soon, although nothing happens on the node.
func TestNamesAreTriedAgainSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.rt.SetFaults(fake.Faults{During: func(string) {
			w.others(10) // no image is to go any more
			w.rt.SetFaults(fake.Faults{End: errors.New("bolt: timeout")})
		}})
		w.fill(81)
		w.wantRemoved()
		w.wantNames(4)
		w.rt.SetFaults(fake.Faults{})
		w.pass(retryMost)
		w.wantNames(5)
	})
}

// A slow runtime has time to restore the names of each image, as long as the agent runs.
func TestNamesOfAGroupAreRestoredSlowly(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.groupNotNeeded(fake.Faults{Delay: 4 * time.Second})
		w.pass(time.Minute)
		w.wantRemoved(ids[:3]...)
		w.wantNames(17)
		w.wantLogged(0, "could not be put back")
	})
}

// A runtime that does not answer is waited for once, not for each image of a group.
func TestNamesOfAGroupAndASilentRuntime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.groupNotNeeded(fake.Faults{Delay: 11 * time.Second})
		w.pass(25 * time.Second) // for the last look, and one image of four
		w.rt.SetFaults(fake.Faults{})
		w.wantNames(17)
	})
}

// A run goes on past images that cannot be withdrawn, although they are more than it has passes.
func TestManyCannotBeWithdrawn(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.many(2 * maxPasses)
		bad := map[string]error{}
		for _, id := range ids[:maxPasses+2] {
			bad[id] = errors.New("bolt: timeout")
		}
		w.rt.SetFaults(fake.Faults{Remove: bad})
		w.fill(81)
		w.wantRemoved(ids[maxPasses+2], ids[maxPasses+3], ids[maxPasses+4])
	})
}

// wantNames wants so many images with names.
func (w *world) wantNames(n int) {
	w.t.Helper()
	if inv, err := w.rt.Inventory(w.t.Context()); err != nil || len(inv.Images) != n {
		w.t.Errorf("%d images have their names, %v; want %d", len(inv.Images), err, n)
	}
}

func TestLastLookFails(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.SetFaults(fake.Faults{Users: errors.New("timeout")})
		w.fill(81)
		w.wantRemoved()
		w.wantLogged(1, "image could not be removed", "look whether they came into use: timeout", ids[0])
		w.wantNames(5)
	})
}

// TestLastLookBesideABrokenSnapshotter: no image is blamed for it, and none waits for it without names.
func TestLastLookBesideABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		looks := 0
		w.rt.SetFaults(fake.Faults{Users: fmt.Errorf("%w: list snapshots in proxy: connection refused", inventory.ErrStale), Restored: func(string) {
			if looks++; looks == 3 { // in the first pass every failure is in doubt
				w.wantRemoved()
				go w.rt.SetFaults(fake.Faults{}) // the next inventory has it as broken
			}
		}})
		w.fill(81)
		w.pass(time.Second)
		w.wantRemoved(ids[0], ids[1])
		w.wantLogged(0, "image could not be removed")
	})
}

// TestLookThatGetsNowhere: a look that ends without a result is followed by another, although nothing happens.
func TestLookThatGetsNowhere(t *testing.T) {
	stale := fmt.Errorf("%w: list snapshots in proxy: connection refused", inventory.ErrStale)
	for _, faults := range []fake.Faults{{Users: stale}, {Withdraw: inventory.ErrNoSpace, Check: stale}} {
		inWorld(t, func(w *world) {
			w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
			ids := w.five()
			w.rt.SetFaults(faults)
			w.fill(81)
			w.pass(30 * time.Second)
			w.rt.SetFaults(fake.Faults{})
			w.wantRemoved()
			w.pass(time.Minute)
			w.wantRemoved(ids[0], ids[1])
		})
	}
}

// TestImagesAfterAFullDisk: what a full disk kept from being removed is tried again once there is room, although
// the disk is still above its threshold.
func TestImagesAfterAFullDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		full := map[string]error{}
		for _, id := range ids {
			full[id] = fmt.Errorf("delete image: %w", inventory.ErrNoSpace)
		}
		w.rt.SetFaults(fake.Faults{Remove: full})
		w.fill(99)
		w.pass(4 * time.Hour) // the next try would be an hour after the latest
		w.wantRemoved()
		w.rt.SetFaults(fake.Faults{})
		w.pass(20 * time.Second)
		w.wantRemoved()
		w.others(97)
		w.pass(20 * time.Second)
		w.wantRemoved(ids...)
	})
}

// A disk too full to withdraw is not too full to remove.
func TestNoSpaceToWithdraw(t *testing.T) {
	for _, fault := range []error{inventory.ErrNoSpace, inventory.ErrUnsupported} {
		inWorld(t, func(w *world) {
			ids := w.five()
			w.rt.SetFaults(fake.Faults{Withdraw: fault})
			w.fill(81)
			w.wantRemoved(ids[0], ids[1])
			w.wantReason(ids[2], image.KeptNotNeeded)
		})
	}
}

// A withdrawal that fails halfway, and cannot restore the names, frees nothing: its lease holds the image. So
// nothing goes until the names are back, and then the same images as before.
func TestWithdrawalEndsHalfway(t *testing.T) {
	for _, fault := range []error{inventory.ErrNoSpace, errors.New("bolt: timeout")} {
		inWorld(t, func(w *world) {
			ids := w.five()
			before := w.history(ids...)
			w.rt.SetFaults(fake.Faults{Halfway: fault, End: errors.New("bolt: file too large")})
			w.fill(81)
			w.wantLogged(0, "image removed")
			w.rt.SetDisk(size, 0, 100000)
			w.rt.SetFaults(fake.Faults{})
			w.pass(2 * time.Minute)
			w.wantNames(5)
			w.wantHistory(before)
			w.fill(81)
			w.wantRemoved(ids[0], ids[1])
		})
	}
}

// A withdrawal that fails and restores the names itself has given them a new date, which is no pull: the image keeps
// its turn, also for the next agent.
func TestWithdrawalIsUndone(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range 5 {
			w.add(fmt.Sprintf("i%d", n), 40)
			w.rt.Tag(fake.CRINamespace, fmt.Sprintf("i%d", n), fmt.Sprintf("i%d-too", n))
		}
		ids := w.five()
		before := w.history(ids...)
		w.rt.SetFaults(fake.Faults{Halfway: errors.New("bolt: timeout"), During: func(string) { w.rt.SetDisk(size, 0, 100000) }})
		w.fill(81)
		w.pass(time.Minute)
		w.wantHistory(before)
		w.down()
		w.up()
		w.pass(10 * time.Minute)
		w.wantHistory(before)
		w.rt.SetFaults(fake.Faults{Halfway: errors.New("bolt: timeout")})
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
	})
}

// What turns up before the last look at an image whose names could not be taken away keeps it.
func TestNeededWithItsNames(t *testing.T) {
	for why, before := range map[string]func(*world, bpf.Key){
		"in use by snapshot elsewhere/new": usesI0,
		"pinned by the runtime":            func(w *world, _ bpf.Key) { w.rt.Pin(i0Name) },
		"the sandbox image":                func(w *world, _ bpf.Key) { w.rt.SetSandboxImage(i0Name) },
		"it has changed since":             func(w *world, _ bpf.Key) { w.add(i0Name, 40) },
		"wanted by":                        wantsI0,
		"used since":                       ranI0,
	} {
		t.Run(why, func(t *testing.T) {
			staysAfterAll(t, why, func(_ string, happens func()) fake.Faults {
				return fake.Faults{Withdraw: inventory.ErrNoSpace, Checking: happens}
			}, before)
		})
	}
}

// many has so many images of 20 MiB that anything may happen to.
func (w *world) many(n int) (ids []string) {
	for i := range n {
		ids = append(ids, w.add(fmt.Sprintf("docker.io/library/i%02d:latest", i), 20))
	}
	w.up()
	for i := range n {
		w.use(fmt.Sprintf("docker.io/library/i%02d:latest", i))
	}
	return ids
}

// groupNotNeeded fills the disk of 20 images. Space comes free when the third group, of four images, has lost its
// names. From then on the runtime has the faults.
func (w *world) groupNotNeeded(faults fake.Faults) (ids []string) {
	w.pods = &fakePods{}
	ids = w.many(20)
	w.rt.SetFaults(fake.Faults{During: func(id string) {
		if id == ids[6] { // the last of that group
			w.rt.SetDisk(size, 0, 100000)
			w.rt.SetFaults(faults)
		}
	}})
	w.fill(99)
	return ids
}

// An image that was put back because others had made room goes in its turn when they take the room again, all
// in one run: not a newer one in its place because ebb has written its name.
func TestPutBackKeepsItsTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.many(9)
		back := 0
		w.rt.SetFaults(fake.Faults{
			During: func(id string) {
				if id == ids[2] && back == 0 {
					w.others(76) // ids[1] is enough
				}
			},
			Restored: func(string) {
				back++
				w.others(79)
			},
		})
		w.fill(81)
		w.pass(time.Minute)
		gone := w.rt.Removed()
		if back == 0 || len(gone) < 3 || !slices.Equal(gone, ids[:len(gone)]) {
			t.Errorf("put back %d times; removed %q, in which %q are the oldest", back, gone, ids)
		}
		w.wantLogged(0, "it has changed since the plan was made")
	})
}

// Where pods are known each image waits for its last look; many wait together.
func TestImagesGoInGroups(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(20)
		began := time.Now()
		w.rt.SetFaults(fake.Faults{During: func(string) { began = cmp.Or(began, time.Now()) }})
		w.fill(99)
		w.pass(4*reclaim.LastLookPause - 1)
		if n := len(w.rt.Removed()); n != 1+2+4 {
			t.Errorf("%d images went in the first three groups", n)
		}
		w.pass(time.Second)
		w.wantRemoved(ids[:12]...) // from 99 to 75 percent
		// One, two and four, of 24, 22 and 18 percent; then two, and the last three by themselves.
		if n := w.rt.Collections(); n != 7 {
			t.Errorf("the runtime collected %d times", n)
		}
		w.wantLogged(4, "image removed", "measured_with=3", fmt.Sprintf("freed_bytes=%d", 20*mib))
		w.wantLogged(1, "reclaim run ended", "images_removed=12", fmt.Sprintf("took_ms=%d", 4*reclaim.LastLookPause/time.Millisecond))
	})
}

// Space comes free while a group waits: nothing more than needed goes, and all
// names are back.
func TestGroupIsNotNeededAnyMore(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.groupNotNeeded(fake.Faults{})
		w.pass(time.Second)
		w.wantRemoved(ids[:3]...)
		w.wantNames(17)
		if n := w.metric("ebb_node_images_restored_total"); n != 0 {
			t.Errorf("%v were mended: they were not put back at once", n)
		}
	})
}

// What is needed changes while images go: those that are left are chosen anew, and one
// that the last of them makes up for stays, although it was used longest ago.
func TestNeedChangesMeanwhile(t *testing.T) {
	tests := map[string]struct {
		first, then  uint64 // percent, were no image to go
		namesAreAway bool   // when it changes; or the first removal is measured
	}{
		"less":                       {91, 88, false}, // of 91 % all three would go
		"less, the names being away": {91, 88, true},
		"more":                       {81, 86, false}, // of 81 % the first two
		"more, the names being away": {81, 86, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b, c := w.add("a", 40), w.add("b", 40), w.add("c", 100)
				w.up()
				w.use("a")
				w.use("b")
				w.use("c")
				then := func() { w.rt.SetDisk(size, size*test.then/100-180*mib, 100000) }
				if test.namesAreAway {
					w.rt.SetFaults(fake.Faults{During: func(id string) {
						if id == b {
							then()
						}
					}})
				} else {
					w.disk.during = func() {
						if len(w.rt.Removed()) == 1 {
							then()
						}
					}
				}
				w.fill(test.first)
				w.pass(time.Second)
				w.wantRemoved(a, c)
				w.wantLogged(1, "reclaim run ended", "result=low_reached", "images_removed=2")
				w.wantReason(b, image.KeptNotNeeded)
			})
		})
	}
}

// One that comes into use spares itself alone, and the next goes by itself.
func TestOneOfAGroupStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(20)
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[4] {
				w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i04"}})
			}
		}})
		w.fill(99)
		w.pass(time.Second)
		w.wantRemoved(slices.Concat(ids[:4], ids[5:13])...)
		w.wantLogged(1, "image kept by the last check", "image="+ids[4], "wanted by")
	})
}

// One of two images that share a layer stays: the other is computed and measured without that layer.
func TestOneOfTwoThatShareStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		shared := fake.Layer{Name: "shared", Bytes: 60 * mib, Inodes: 10}
		first, a, b, last := w.add("first", 40), w.add(i0Name, 20, shared), w.add("b", 20, shared), w.add("last", 100)
		w.up()
		for _, name := range []string{"first", i0Name, "b", "last"} {
			w.use(name)
		}
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == b {
				w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i0"}})
			}
		}})
		w.fill(99)
		w.pass(time.Minute)
		w.wantRemoved(first, b, last)
		w.wantLogged(1, "image removed", b, fmt.Sprintf("computed_bytes=%d", 20*mib))
		if n := w.metric("ebb_node_image_removal_shortfalls_total"); n != 0 {
			t.Errorf("%v shortfalls", n)
		}
		w.wantReason(a, image.KeptWanted)
	})
}

// A pod that comes to want an image of a group gets it back before others of the group go.
func TestPodDoesNotWaitForTheGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(20)
		w.disk.during = func() {
			if len(w.rt.Removed()) == 9 { // two of the last five, which go one by one now
				w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i11"}})
			}
		}
		before := -1
		w.rt.SetFaults(fake.Faults{Restored: func(string) { before = len(w.rt.Removed()) }})
		w.fill(99)
		w.pass(time.Second)
		w.wantRemoved(slices.Concat(ids[:11], ids[12:13])...)
		if before != 9 {
			t.Errorf("%d images had gone when the names were back, want 9", before)
		}
	})
}

// Where the runtime is slow, images do not wait for their turn without their names.
func TestNamesAreNotAwayForLong(t *testing.T) {
	for name, slow := range map[string]fake.Faults{
		"to collect":  {Collect: time.Second},
		"to withdraw": {Delay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pods = &fakePods{}
				ids := w.many(20)
				var longest time.Duration
				since := make(map[string]time.Time) // by image without names
				slow.During = func(id string) { since[id] = time.Now() }
				back := func(id string) {
					if at, ok := since[id]; ok {
						longest = max(longest, time.Since(at))
						delete(since, id)
					}
				}
				slow.Restored = back
				w.disk.during = func() {
					for _, id := range w.rt.Removed() {
						back(id)
					}
				}
				w.rt.SetFaults(slow)
				w.fill(99)
				w.pass(5 * time.Minute)
				w.wantRemoved(ids[:12]...)
				if longest > reclaim.NamesAwayMost+2*time.Second { // one of the images, and the last check or the collection
					t.Errorf("names were away for %v", longest)
				}
			})
		})
	}
}

// The runtime goes away while a group waits.
func TestRuntimeGoesWhileAGroupWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(20)
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[5] {
				w.rt.SetFaults(fake.Faults{Users: inventory.ErrUnavailable, End: inventory.ErrUnavailable})
			}
		}})
		w.fill(99)
		w.pass(time.Millisecond * 200)
		w.wantRemoved(ids[:3]...)
		w.rt.SetFaults(fake.Faults{})
		w.pass(time.Minute)
		w.wantRemoved(ids[:12]...)
		if inv, err := w.rt.Inventory(context.Background()); err != nil || len(inv.Images) != 8 {
			t.Errorf("%d images have their names, %v; want 8", len(inv.Images), err)
		}
	})
}

// Who writes as fast as images go looks like a removal that frees nothing, except
// to the kernel's count of what was given back.
func TestWriterWhileImagesGo(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.disk.kind = kind
				ids := w.five()
				written := 81*size/100 - (size - w.rt.Disk().AvailableBytes)
				w.disk.during = func() {
					if len(w.rt.Removed()) < 3 {
						written += 40 * mib
						w.rt.SetDisk(size, written, 100000)
					}
					w.kernel.gave(40 * mib)
				}
				w.fill(81)
				w.pass(time.Minute)
				if n := w.metric("ebb_node_image_removal_shortfalls_total"); n != 0 {
					t.Errorf("%v shortfalls counted", n)
				}
				w.wantRemoved(ids[:3]...)
				// The disk would be full at once, so what is needed after the first goes together.
				w.wantLogged(2, "image removed", "measured_with=1")
			})
		})
	}
}

// silent does not answer the last look of several images.
type silent struct {
	*fake.Runtime
	err    error
	silent int // how often
}

func (s *silent) Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error) {
	if len(withdrawals) > 1 && s.silent < 3 {
		s.silent++
		return nil, fmt.Errorf("list containers: %w", s.err)
	}
	return s.Runtime.Users(ctx, withdrawals...)
}

// unhurried takes a while to answer the last look, whatever becomes of who has asked.
type unhurried struct {
	*fake.Runtime
	answered func()
}

func (u *unhurried) Users(context.Context, ...inventory.Withdrawal) ([][]string, error) {
	time.Sleep(time.Second)
	u.answered()
	return nil, errors.New("too late")
}

// A run that ends without the answer of the last look waits until nothing of it is left.
func TestRunLeavesNothingBehind(t *testing.T) {
	inWorld(t, func(w *world) {
		answers := 0
		w.dial = func(context.Context) (Runtime, error) {
			return &unhurried{w.rt, func() {
				answers++
				w.agent.monitor.Do(func() {
					if !w.agent.reclaim.Running() {
						t.Error("the run is over, and the runtime is still asked")
					}
				})
			}}, nil
		}
		w.five()
		w.rt.SetFaults(fake.Faults{During: func(string) { w.disk.mount("/", 0, "", nil) }})
		w.fill(81)
		w.pass(time.Minute)
		if answers == 0 {
			t.Error("the runtime was not asked")
		}
	})
}

// When the runtime does not answer the last look, no image is blamed, and the history has an outcome for
// each removal that was begun.
func TestLastLookWithoutAnAnswer(t *testing.T) {
	for name, err := range map[string]error{"unavailable": inventory.ErrUnavailable, "slow": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				rt := &silent{Runtime: w.rt, err: err}
				w.dial = func(context.Context) (Runtime, error) { return rt, nil }
				ids := w.many(20)
				w.pass(time.Minute)
				w.fill(95)
				w.pass(time.Minute)
				if rt.silent != 3 {
					t.Fatalf("it was silent %d times", rt.silent)
				}
				if n := w.metric("ebb_node_image_removal_failures_total"); n != 0 {
					t.Errorf("%v images are blamed", n)
				}
				for _, e := range w.booked() {
					if e.Outcome == page.OutcomeBegun {
						t.Errorf("without an outcome: %+v", e)
					}
				}
				if got := w.rt.Removed(); !slices.Equal(got, ids[:len(got)]) || len(got) < 8 {
					t.Errorf("%q went, want them in the order of %q", got, ids)
				}
			})
		})
	}
}

// A runtime that does not answer in time is no fault of the image that it was asked about: no other goes in its place.
func TestWithdrawalWithoutAnAnswer(t *testing.T) {
	for name, faults := range map[string]fake.Faults{"check": {Check: context.DeadlineExceeded}, "withdraw": {Withdraw: context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.many(20)
				w.pass(time.Minute)
				w.rt.SetFaults(faults)
				w.rt.Import("elsewhere", fake.Image{Name: "x", Config: "x"}) // an event: images are read anew
				w.fill(95)
				w.pass(3 * time.Second)
				w.rt.SetFaults(fake.Faults{})
				w.pass(time.Minute)
				if n := w.metric("ebb_node_image_removal_failures_total"); n != 0 {
					t.Errorf("%v images are blamed", n)
				}
				if got := w.rt.Removed(); !slices.Equal(got, ids[:len(got)]) || len(got) < 8 {
					t.Errorf("%q went, want them in the order of %q", got, ids)
				}
			})
		})
	}
}

// The node cannot be read any more after images were removed: the run is reported all the same.
func TestRunEndsWithoutAnotherReading(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.logs.on = func(line string) {
			if strings.Contains(line, "image removed") {
				w.rt.SetFaults(fake.Faults{Inventory: inventory.ErrUnavailable})
			}
		}
		w.fill(81)
		w.pass(time.Millisecond)
		w.wantLogged(1, "reclaim run ended", "result=incomplete", "images_removed=2")
		if r := w.status().LastRun; r == nil || r.Removed != 2 {
			t.Errorf("the last run is %+v", r)
		}
		w.rt.SetFaults(fake.Faults{})
		w.pass(time.Minute)
		w.wantLogged(1, "reclaim run ended")
	})
}

// A runtime that answers no more does not keep an agent that stops: the names of all images have one bound.
func TestStopsBesideASilentRuntime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(20)
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[11] { // the last of a group of five, of which two go first
				w.rt.SetFaults(fake.Faults{Delay: time.Hour})
			}
		}})
		w.fill(99)
		w.pass(time.Second)
		w.wantRemoved(ids[:7]...)
		began := time.Now()
		w.down()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v to stop", took)
		}
		w.rt.SetFaults(fake.Faults{})
		w.others(50)
		w.up()
		if inv, err := w.rt.Inventory(t.Context()); err != nil || len(inv.Images) != 13 {
			t.Errorf("%d images have their names, %v; want 13", len(inv.Images), err)
		}
	})
}
