// A page with a WebSocket that speaks freshet.v1 and resumes from the last position it saw.
// Reports {"opened": times, "recovered"} for each subscription, {"event": id, "position"}, {"gap"}, {"closed": code},
// and {"failed"} for what the story does not expect.
({ path, channel, shortestWaitMillis, longestWaitMillis }) => {
  const url = new URL(path, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  let opened = 0;
  let position;

  const on = {
    welcome: () => {},
    pong: () => {},
    close: () => {},
    live: (message) => { position = message.position; },
    subscribed: (message) => {
      opened += 1;
      position ??= message.position;
      report(JSON.stringify({ opened, recovered: message.recovered }));
    },
    event: (message) => {
      position = message.position;
      report(JSON.stringify({ event: message.id, position }));
    },
    gap: (message) => report(JSON.stringify({ gap: message })),
  };

  const connect = () => {
    const socket = new WebSocket(url, 'freshet.v1');
    socket.onopen = () => {
      const from = position === undefined ? 'now' : { position };
      socket.send(JSON.stringify({ type: 'subscribe', channel, from }));
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      const take = on[message.type];
      if (take) take(message);
      else report(JSON.stringify({ failed: data }));
    };
    socket.onclose = ({ code }) => {
      report(JSON.stringify({ closed: code }));
      const wait = shortestWaitMillis + Math.random() * (longestWaitMillis - shortestWaitMillis);
      setTimeout(connect, wait);
    };
  };
  connect();
}
