// A page with an EventSource that recovers as browsers do, and no code of the page helps it.
// Reports {"opened": times}, {"event": id} for each commit, and {"gap": data} when history does not reach back.
({ path }) => {
  let opened = 0;
  const source = new EventSource(path);
  source.addEventListener('open', () => {
    opened += 1;
    report(JSON.stringify({ opened }));
  });
  source.addEventListener('error', () => {
    // The browser comes back by itself unless it was answered with anything but an event stream.
    if (source.readyState === EventSource.CLOSED) report(JSON.stringify({ failed: 'the browser gave up' }));
  });
  source.addEventListener('iceberg-mutation', (event) => report(JSON.stringify({ event: event.lastEventId })));
  source.addEventListener('gap', (event) => report(JSON.stringify({ gap: event.data })));
}
