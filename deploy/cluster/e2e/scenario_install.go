package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/peers"
)

// agentHealth is where the agent's probes ask, on the node.
const agentHealth = "http://127.0.0.1:9480"

// agentAddress returns host:port of the agent's metrics: the node's address.
func (b *fixture) agentAddress() string {
	ip := need(b.kubectl("get", "nodes", `--output=jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`))
	return net.JoinHostPort(strings.Fields(ip)[0], "9478")
}

// agentSocket is the agent's admin socket, on the node.
const agentSocket = "/run/ebb/agent.sock"

// installPage is the page that a newcomer follows.
const installPage = "docs/install.md"

const (
	quickstartPage = "docs/quickstart.md"
	kubeletPage    = "docs/kubelet.md"
	operatePage    = "docs/operate.md"
)

// push is the first step of the page. The time and the commands after it, up to the dashboards,
// are counted.
func (b *fixture) push() {
	b.follow(installPage, "1. The image")
	b.nextVersion()
	b.progress.pushed, b.progress.since = time.Now(), 0
}

// install is the second step of the page.
func (b *fixture) install() {
	b.before = need(b.lookAround())
	b.follow(installPage, "2. Install")
	images := b.readyIn("observe")
	b.notes.ok("the agent is ready, from the image %s, in mode observe", repository)
	b.notes.ok("%d images are known; the disk is %d %% full, its thresholds are %d and %d %%",
		len(images.Store.Images), images.UsedPercent, images.HighPercent, images.LowPercent)
}

// withController follows the page's optional step. The Prometheus of provision.sh finds both
// controllers.
func (b *fixture) withController() {
	b.follow(installPage, "6. The controller")
	b.controlled = true
	b.ready()
	b.notes.ok("two controllers are ready")
}

// look follows the step that shows what ebb would do.
func (b *fixture) look() {
	need(b.kubectl("create", "namespace", "shop"))
	b.apply(strings.ReplaceAll(fmt.Sprintf(aDeployment, "web", appImage), "namespace: default", "namespace: shop"))
	need(b.kubectl("rollout", "status", "deployment/web", "--namespace=shop", "--timeout=4m"))
	output := b.follow(installPage, "4. Look")
	for _, has := range []string{"Pinned below", "lastuse", "ext4", appImage, "ReplicaSet web-"} {
		if !strings.Contains(output, has) {
			fail("a look does not say %q", has)
		}
	}
	b.notes.ok("the kernel has its programs, loaded by a container that is not privileged")
	b.followRest(quickstartPage, "The first 15 minutes")
	need(b.kubectl("delete", "namespace", "shop", "--wait=false"))
}

func (b *fixture) ready() {
	b.rollout("daemonset/ebb-agent")
	if b.controlled {
		b.rollout("deployment/ebb-controller")
	}
}

// readyIn waits as ready does, then checks the agent's mode.
func (b *fixture) readyIn(mode string) explanation {
	b.ready()
	images := need(b.images())
	if images.Store.Mode != mode {
		fail("the agent's mode is %q", images.Store.Mode)
	}
	return images
}

// enforce follows the steps that let ebb act. First it sets what a run of minutes needs: images
// count as old after seconds, and the optional alerts are installed.
func (b *fixture) enforce() {
	b.upgrade("agent.config.images.imageMinimumGCAge=5s", "prometheusRule.optional=true")
	b.follow(installPage, "5. Let it act")
	if output := b.followRest(kubeletPage, "Hand over"); !strings.Contains(output, "images: ebb alone collects") {
		fail("the doctor does not say that ebb alone collects")
	}
	b.notes.ok("the doctor sees from the agent's pod that the kubelet's image collection is handed over")
	b.upgrade("agent.hostPID=false")
	b.follow(installPage, "7. Let the controller act")
	b.readyIn("enforce")
	b.operate()
	b.notes.ok("both were replaced, and enforce")
}

// upgradeAsPrinted upgrades to the image that is there, by its digest.
func (b *fixture) upgradeAsPrinted() {
	b.followRest(operatePage, "Upgrade")
	image := need(b.kubectl("get", "daemonset", "ebb-agent", "--namespace", namespace, "--output=jsonpath={.spec.template.spec.containers[0].image}"))
	if !strings.HasPrefix(image, repository+"@sha256:") {
		fail("the agent's image is %s", image)
	}
	b.notes.ok("the agent runs from the image with the digest that was pushed")
	b.upgrade("image.digest=")
	b.ready()
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

// explanation is the agent's view of the images and of the filesystem that holds them.
type explanation struct {
	Store page.Images
	page.Filesystem
}

// has reports whether the agent knows an image by that name.
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

// plain makes a connection for each request, because servers are replaced during a run.
var (
	plain = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	admin = peers.UnixClient(agentSocket)
)
