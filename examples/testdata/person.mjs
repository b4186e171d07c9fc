// A person at page.html: node person.mjs PAGE GATEWAY FOLDER. Prints what it sees.
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../sdk/typescript/test/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const [, , address, gateway, folder] = process.argv;

const browser = await chromium.launchPersistentContext(folder, {
  executablePath: '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--no-first-run'],
});
const page = await browser.newPage();
page.on('pageerror', (error) => {
  throw error;
});
await page.goto(address);
await page.fill('[name=url]', gateway);
await page.fill('[name=token]', process.env.MOBILE_TOKEN);
await page.click('#enter button');

async function say(text) {
  await page.fill('[name=text]', text);
  await page.click('#say button');
}

async function see(selector, text) {
  await page.locator(selector, { hasText: text }).last().waitFor();
  console.log(text);
}

const reply = '#log > div:not(.mine)';
await say('hello');
await see(reply, 'hello');
await say('/stream one two three');
await see(reply, 'one two three');
await say('/approve ls');
await page.click('#log button >> nth=0');
await see(reply, ' (once)');
await page.setInputFiles('[name=photo]', { name: 'a.gif', mimeType: 'image/gif', buffer: Buffer.from('R0lGODlhAQABAAAAACw=', 'base64') });
await page.click('#say button');
await page.locator('#log img').waitFor({ state: 'attached' });
console.log('img');
await browser.close();
