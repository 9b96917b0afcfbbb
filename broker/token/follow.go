package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// Start reads the existing tokens, and begins to follow changes by other brokers and to remove expired tokens, until
// Close.
func (m *Manager) Start(ctx context.Context) error {
	if err := m.cfg.Store.EnsureTokenNodes(ctx); err != nil {
		return err
	}
	following, ended := make(chan struct{}), make(chan error, 1)
	m.tasks.Go(func() {
		err := m.cfg.Store.WatchTokenChanges(m.ctx, func() { close(following) }, func(ids []string, all bool) { m.reread(ids, all) })
		if m.ctx.Err() != nil {
			return
		}
		err = fmt.Errorf("changes of delegation tokens can no longer be watched: %w", err)
		ended <- err
		m.cfg.Failed(err)
	})
	select {
	case <-following: // so that no change after the read is missed
	case err := <-ended:
		return err
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := m.readAll(ctx); err != nil {
		return err
	}
	m.tasks.Go(func() { m.sweep(m.ctx) })
	return nil
}

// Close ends what Start has begun, if it was called.
func (m *Manager) Close() {
	m.cancel()
	m.reading.Lock()
	m.closed = true
	m.reading.Unlock()
	m.tasks.Wait()
}

// rereadPause is the time after which tokens that could not be read are read again.
const rereadPause = 10 * time.Second

// reread applies tokens that were written or removed. Those that cannot be read are read again later: one that was
// removed would stay valid.
func (m *Manager) reread(ids []string, all bool) {
	ctx := m.ctx // whoever has asked for it may go away: what has changed must not be missed
	m.reading.Lock()
	defer m.reading.Unlock()
	var err error
	if all {
		err = m.readAllLocked(ctx)
	}
	all = err != nil
	var unread []string
	for _, id := range ids {
		t, found, readErr := m.cfg.Store.DelegationToken(ctx, id)
		switch {
		case readErr != nil:
			err, unread = errors.Join(err, readErr), append(unread, id)
		case found:
			m.put(t)
		default:
			m.forget(id)
		}
	}
	if err != nil && !m.closed {
		m.cfg.Logger.WithError(err).Error("cannot read changed delegation tokens, trying again later")
		m.tasks.Go(func() {
			if await.Pause(ctx, rereadPause) == nil {
				m.reread(unread, all)
			}
		})
	}
}

func (m *Manager) readAll(ctx context.Context) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	return m.readAllLocked(ctx)
}

func (m *Manager) readAllLocked(ctx context.Context) error {
	stored, err := m.cfg.Store.DelegationTokens(ctx)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(stored))
	for _, t := range stored {
		there[t.ID] = true
		m.put(t)
	}
	for _, t := range m.Tokens(every) {
		if !there[t.ID] {
			m.forget(t.ID)
		}
	}
	return nil
}

// sweep periodically removes expired tokens.
func (m *Manager) sweep(ctx context.Context) {
	tick := time.NewTicker(m.cfg.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.removeExpired(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) removeExpired(ctx context.Context) {
	if !m.cfg.Sweeps() {
		return
	}
	now := m.cfg.Now().UnixMilli()
	for _, t := range m.Tokens(every) {
		if !expired(t.DelegationToken, now) {
			continue
		}
		if err := m.remove(ctx, t.DelegationToken); err != nil && ctx.Err() == nil {
			m.cfg.Logger.WithError(err).WithField(logx.Token, t.ID).Error("cannot remove an expired delegation token")
		}
	}
}

func every(zkcoord.DelegationToken) bool { return true }
