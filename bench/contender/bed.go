package contender

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/peers"
)

// Bed is a control plane whose controller manager is a contender, and does not run yet;
// with the rights of ebb-controller.
type Bed struct {
	CP    *peers.ControlPlane
	Admin *http.Client
	Ebb   Ebb
}

// NewBed starts a control plane. Rights are in the directory of manifests deploy.
func NewBed(ctx context.Context, config peers.Config, controller, deploy string) (_ *Bed, err error) {
	config.ControllerManager, config.ControllerManagerArgs = true, PeerArgs
	cp, err := peers.StartControlPlane(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &Bed{CP: cp, Ebb: Ebb{Binary: controller}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := cp.ControllerManager.Stop(ctx); err != nil {
		return nil, err
	}
	for _, file := range []string{"00-namespace.yaml", "controller-rbac.yaml", "controller-flowschema.yaml"} {
		if err := cp.Apply(ctx, filepath.Join(deploy, file)); err != nil {
			return nil, err
		}
	}
	if b.Ebb.Kubeconfig, err = cp.ServiceAccountKubeconfig(ctx, "ebb-system", "ebb-controller"); err != nil {
		return nil, err
	}
	if b.Admin, err = cp.Admin(); err != nil {
		return nil, err
	}
	if b.Ebb.Dir, err = os.MkdirTemp("", config.Name+"-"); err != nil {
		return nil, err
	}
	b.Ebb.Address, err = FreeAddress()
	return b, err
}

// Close ends the control plane and deletes all files.
func (b *Bed) Close() error { return errors.Join(b.CP.Close(), os.RemoveAll(b.Ebb.Dir)) }
