// SPDX-License-Identifier: Apache-2.0
/** The script of the live page. */
import { LivePage } from "./live/live_page";
import { start } from "./start";

start((page) => (page.page === "live" ? <LivePage page={page} /> : "This script shows the live page only."));
