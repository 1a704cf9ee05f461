package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/peers"
)

const agentURL = "http://127.0.0.1:9478"

// agentSocket is the agent's admin socket, on the node.
const agentSocket = "/run/ebb/agent.sock"

// installPage is what a newcomer follows.
const installPage = "docs/install.md"

// push is the first step of the page. What it takes from there to the dashboard counts.
func (b *fixture) push() {
	b.follow(installPage, "1. The image")
	b.nextVersion()
	b.progress.pushed, b.progress.since = time.Now(), 0
}

// install is the second.
func (b *fixture) install() {
	b.before = need(b.lookAround())
	b.follow(installPage, "2. Install")
	images := b.readyIn("observe")
	b.notes.ok("the agent is ready, from the image %s, in mode observe", repository)
	b.notes.ok("%d images are known; the disk is %d %% full, its thresholds are %d and %d %%",
		len(images.Store.Images), images.UsedPercent, images.HighPercent, images.LowPercent)
}

// withController is what the page has for those who want it; the script's Prometheus finds both.
func (b *fixture) withController() {
	b.follow(installPage, "6. The controller")
	b.controlled = true
	b.ready()
	b.notes.ok("two controllers are ready")
}

// look asks what would be done.
func (b *fixture) look() {
	need(b.kubectl("create", "namespace", "shop"))
	b.apply(strings.ReplaceAll(fmt.Sprintf(aDeployment, "web", appImage), "namespace: default", "namespace: shop"))
	need(b.kubectl("rollout", "status", "deployment/web", "--namespace=shop", "--timeout=4m"))
	said := b.follow(installPage, "4. Look")
	for _, has := range []string{"Pinned below", "lastuse", "ext4", appImage, "ReplicaSet web-"} {
		if !strings.Contains(said, has) {
			fail("a look does not say %q", has)
		}
	}
	b.notes.ok("the kernel has its programs, loaded by a container that is not privileged")
	need(b.kubectl("delete", "namespace", "shop", "--wait=false"))
}

func (b *fixture) ready() {
	b.rollout("daemonset/ebb-agent")
	if b.controlled {
		b.rollout("deployment/ebb-controller")
	}
}

// readyIn is ready, and the agent in that mode.
func (b *fixture) readyIn(mode string) explanation {
	b.ready()
	images := need(b.images())
	if images.Store.Mode != mode {
		fail("the agent's mode is %q", images.Store.Mode)
	}
	return images
}

// enforce lets it act. Before, it gets what a run of minutes needs besides: an image is old
// after seconds, and the alerts that can wait are there.
func (b *fixture) enforce() {
	b.upgrade("agent.config.images.imageMinimumGCAge=5s", "prometheusRule.optional=true")
	b.follow(installPage, "5. Let it act")
	b.follow(installPage, "7. Let the controller act")
	b.readyIn("enforce")
	b.operate()
	b.notes.ok("both were replaced, and enforce")
}

// upgrade changes values of the release.
func (b *fixture) upgrade(values ...string) {
	args := []string{"upgrade", "ebb", "deploy/chart", "--namespace", namespace, "--reset-then-reuse-values"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	b.notes.command("helm " + strings.Join(args, " "))
	need(b.run(b.o.helm, args...))
}

// explanation is what the agent says of the images and of the filesystem that has them.
type explanation struct {
	Store page.Images
	page.Filesystem
}

// has tells whether the agent knows an image by that name.
func (e explanation) has(name string) bool { return e.lastUsed(name, func(*time.Time) {}) }

func (e explanation) lastUsed(name string, visit func(*time.Time)) bool {
	for _, image := range e.Store.Images {
		for _, reference := range image.References {
			if reference == name {
				visit(image.LastUsed)
				return true
			}
		}
	}
	return false
}

func (b *fixture) images() (explanation, error) {
	var e explanation
	var s page.Status
	if err := b.askBy(admin, "http://ebb/images", &e.Store); err != nil {
		return e, err
	}
	if err := b.askBy(admin, "http://ebb/status", &s); err != nil {
		return e, err
	}
	if len(s.Filesystems) == 0 {
		return e, errors.New("the agent watches no filesystem yet")
	}
	e.Filesystem = s.Filesystems[0]
	return e, nil
}

// ask reads JSON, or text if out is a *string.
func (b *fixture) ask(url string, out any) error { return b.askBy(plain, url, out) }

func (b *fixture) askBy(client *http.Client, url string, out any) error {
	ctx, cancel := context.WithTimeout(b, 10*time.Second)
	defer cancel()
	return peers.Request(ctx, client, http.MethodGet, url, nil, out)
}

// plain makes a connection for each request: servers come and go here.
var (
	plain = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	admin = peers.UnixClient(agentSocket)
)
