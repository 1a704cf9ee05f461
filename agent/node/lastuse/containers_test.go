package lastuse

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// What was heard while the runtime was being asked is newer than its answer.
func TestEventsDuringTheList(t *testing.T) {
	t0 := time.Now()
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	named := func(string) string { return "image" }
	end := func(t time.Time) time.Time { return t }
	ended := inventory.Container{Namespace: "moby", ID: "c", ImageID: "image", Ended: at(1)}
	runs := inventory.Container{Namespace: "moby", ID: "c", ImageID: "image"}
	restarted := func() containers {
		c := newContainers()
		c.back(at(0))
		c.list([]inventory.Container{ended}, at(2), end, nil)
		c.event(inventory.Event{Namespace: "moby", Container: "c", Used: true}, at(11), at(11), named)
		c.event(inventory.Event{Namespace: "moby", Container: "new", Image: "x", Used: true}, at(11), at(11), named)
		c.list([]inventory.Container{ended}, at(10), end, nil)
		return c
	}
	t.Run("it began again", func(t *testing.T) {
		c := restarted()
		if was := c.records["moby/c"]; !was.Ended.IsZero() {
			t.Errorf("it ended at %v", was.Ended)
		}
		c.list([]inventory.Container{runs}, at(20), end, nil)
		if uses := c.list(nil, at(60), end, nil); !uses["image"].Equal(at(60)) {
			t.Errorf("gone without a word, it was used until %v", uses["image"])
		}
	})
	t.Run("it was made", func(t *testing.T) {
		c := restarted()
		if id := c.event(inventory.Event{Namespace: "moby", Container: "new", Ended: true, Used: true}, at(12), at(12), named); id != "image" {
			t.Errorf("its end is one of image %q", id)
		}
	})
	t.Run("it ended before its image was listed", func(t *testing.T) {
		c := newContainers()
		c.back(at(0))
		c.list(nil, at(2), end, nil)
		c.event(inventory.Event{Namespace: "moby", Container: "c", Ended: true, Used: true}, at(11), at(11), named)
		uses := c.list([]inventory.Container{runs}, at(10), end, nil)
		if !uses["image"].Equal(at(11)) {
			t.Errorf("used at %v", uses["image"])
		}
	})
}

// A container that was removed counts as used until then, if its end was not reported.
func TestRemovedWithoutAnEnd(t *testing.T) {
	t0 := time.Now()
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	end := func(t time.Time) time.Time { return t }
	c := newContainers()
	c.back(at(0))
	c.list([]inventory.Container{{Namespace: "moby", ID: "c", ImageID: "image"}}, at(1), end, nil)
	gone := inventory.Event{Kind: inventory.EventContainer, Namespace: "moby", Container: "c"}
	if id := c.removed(gone, at(5), at(5)); id != "image" {
		t.Errorf("image %q was used by it", id)
	}
	if id := c.removed(gone, at(6), at(6)); id != "" {
		t.Errorf("image %q was used by it once more", id)
	}
	if uses := c.list([]inventory.Container{{Namespace: "moby", ID: "c", ImageID: "image"}}, at(4), end, nil); len(uses) > 0 && !uses["image"].Equal(at(5)) {
		t.Errorf("it was used until %v", uses["image"])
	}
	if uses := c.list(nil, at(10), end, nil); len(uses) > 0 {
		t.Errorf("it was used until %v", uses["image"])
	}
	if id := c.removed(inventory.Event{Kind: inventory.EventContainer, Namespace: "moby", Container: "other"}, at(11), at(11)); id != "" {
		t.Errorf("image %q was used by what nobody knows", id)
	}
}

// A list that was asked for before the events were back shows nothing of the time until then.
func TestGapOutlastsAnEarlierList(t *testing.T) {
	c, t0 := newContainers(), time.Now()
	c.back(t0)
	c.list(nil, t0.Add(time.Second), nil, nil)
	c.broke()
	c.back(t0.Add(11 * time.Second))
	c.list(nil, t0.Add(10*time.Second), nil, nil)
	if !c.gap {
		t.Error("nothing can have been lost")
	}
	c.list(nil, t0.Add(12*time.Second), nil, nil)
	if c.gap {
		t.Error("something may still have been lost")
	}
}
