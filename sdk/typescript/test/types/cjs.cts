// The types of the CommonJS build.
import hermes = require('hermes-mobile-client');

const client: hermes.HermesClient = new hermes.HermesClient({
  url: 'wss://host/ws',
  token: 't',
  device: { id: 'a', name: 'b', platform: 'web', appVersion: '1' },
  handlers: { onMessage: (message: hermes.AgentMessage) => message.text.length },
});
const version: 1 = hermes.PROTOCOL_VERSION;
// @ts-expect-error: no such callback
client.setHandlers({ onSmell: () => version });
